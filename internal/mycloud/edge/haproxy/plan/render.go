package plan

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
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

// Settings are what a configuration file has besides the plan.
type Settings struct {
	// StateFile and LimitsFile are the paths of the files from which a worker that starts has the states of servers and the
	// limits.
	StateFile, LimitsFile string
	// User and Group are those of the workers, by their numbers; empty for those of the agent.
	User, Group string
	// Files is how many files HAProxy may open, which limits the connections.
	Files int
}

// Render writes the plan as HAProxy's configuration file. The structure identifies everything but the servers and the
// limits, which HAProxy can change without a reload. The process shows it as its description, by which its configuration
// is recognized.
func (p *Plan) Render(s Settings) (text []byte, structure string, err error) {
	values := struct {
		Settings

		Description    string
		MaxConnections int
		Frontends      []Frontend
		Backends       []Backend
	}{Settings: s, Frontends: p.Frontends, Backends: slices.Clone(p.Backends)}
	for i := range values.Backends {
		values.Backends[i].Servers = nil
	}
	var b bytes.Buffer
	if err := configuration.Execute(&b, values); err != nil {
		return nil, "", fmt.Errorf("render configuration: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	b.Reset()
	// Each member that joins or leaves changes how many connections there can be.
	values.Description, values.Backends = hex.EncodeToString(sum[:16]), p.Backends
	values.MaxConnections = p.connections(s.Files)
	if err := configuration.Execute(&b, values); err != nil {
		return nil, "", fmt.Errorf("render configuration: %w", err)
	}
	return b.Bytes(), values.Description, nil
}

// Line returns the server in the form that the configuration file and the command "add server" share.
func (s Server) Line() string {
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
