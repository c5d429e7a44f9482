package haproxy

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

// longestFin is how long one side of a connection may be idle that the other side has closed.
const longestFin = 30 * time.Second

//go:embed haproxy.cfg.tmpl
var source string

var configuration = template.Must(template.New("haproxy.cfg").Funcs(template.FuncMap{
	"quote": quote,
	"ms":    milliseconds,
	// If one side of a connection has closed, the other need not be waited for longer than for one that is idle.
	"fin":  func(idle time.Duration) time.Duration { return min(idle, longestFin) },
	"join": func(words []string) string { return strings.Join(words, " ") },
}).Parse(source))

// rendered is a configuration file.
type rendered struct {
	text []byte
	// structure identifies everything but the servers and the limits, which HAProxy can change without a reload.
	structure string
	// limits is the file of limits.
	limits []byte
}

// render writes a plan as HAProxy's configuration file. The process shows the structure as its description, by which
// its configuration is recognized.
func render(p *plan, dir string, user account, connections int) (*rendered, error) {
	values := struct {
		Description, StateFile, LimitsFile string
		User                               account
		MaxConnections                     int
		Frontends                          []frontend
		Backends                           []backend
	}{
		StateFile: filepath.Join(dir, stateFile), LimitsFile: filepath.Join(dir, limitsFile), User: user,
		Frontends: p.frontends, Backends: slices.Clone(p.backends),
	}
	for i := range values.Backends {
		values.Backends[i].Servers = nil
	}
	var b bytes.Buffer
	if err := configuration.Execute(&b, values); err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	r := &rendered{structure: hex.EncodeToString(sum[:16])}
	b.Reset()
	// Each member that joins or leaves changes how many connections there can be.
	values.Description, values.Backends, values.MaxConnections = r.structure, p.backends, connections
	if err := configuration.Execute(&b, values); err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	r.text, r.limits = b.Bytes(), p.limitsFile()
	return r, nil
}

// Line returns the server in the form that the configuration file and the command "add server" share.
func (s server) Line() string {
	id := ""
	if s.ID != 0 {
		id = fmt.Sprintf(" id %d", s.ID)
	}
	return fmt.Sprintf("%s %s%s weight %d%s", s.Name, s.Address, id, s.Weight, s.Options)
}

// Expiry returns how long HAProxy keeps the counter, in seconds: longer than it counts.
func (q quota) Expiry() int { return q.Seconds + 10 }

// quote returns a word that HAProxy reads as s, whatever s contains except for control characters.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }
