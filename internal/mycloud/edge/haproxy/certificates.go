package haproxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// certificateDir has a file for each certificate: the chain and then the key. The content of a file is what HAProxy has
// loaded, or will load with the next reload. Candidates are only checked.
const (
	certificateDir = "certs"
	candidateDir   = "candidates"
)

// socketLimit is how long a certificate may be to pass through HAProxy's socket.
const socketLimit = 15 << 10

// installed are the certificates of the listeners as files.
type installed struct {
	dir string
	// broken has why a certificate is not as it should be. Those with a file go on as they were.
	broken map[string]error
	files  map[string]bool
	// reload has the load balancers for whose certificates HAProxy must load a file again.
	reload map[string]bool
}

// usable returns the files of certificates, without those that have none.
func (c *installed) usable(ids []string) ([]string, error) {
	var files []string
	var broken error
	for _, id := range ids {
		switch {
		case c.files[id]:
			files = append(files, certificateFile(c.dir, id))
		case broken == nil:
			broken = c.broken[id]
		}
	}
	if files == nil {
		return nil, broken
	}
	return files, nil
}

func certificateFile(dir, id string) string {
	return filepath.Join(dir, certificateDir, plan.Encode(id)+".pem")
}

// faults returns the listeners that go on with an earlier certificate, or without one of several.
func (c *installed) faults(units []plan.Unit) []cloudv1.EdgeFault {
	var faults []cloudv1.EdgeFault
	for _, u := range units {
		if u.Listener == nil {
			continue
		}
		files, _ := c.usable(u.Listener.Certificates)
		for _, id := range u.Listener.Certificates {
			switch err := c.broken[id]; {
			case err == nil || len(files) == 0:
			case c.files[id]:
				faults = append(faults, u.Fault(fmt.Errorf("goes on with an earlier certificate: %w", err)))
			default:
				faults = append(faults, u.Fault(fmt.Errorf("goes on with its other certificates: %w", err)))
			}
		}
	}
	return faults
}

// fresh is a certificate that is not in its file yet.
type fresh struct {
	loadBalancer, id string
	content          []byte
	// loaded is true if HAProxy has loaded another content.
	loaded bool
}

// install writes the certificates of listeners. Those that HAProxy has loaded are replaced in the process. Waits has
// the load balancers that must not cause a reload.
func (e *Engine) install(
	ctx context.Context, p *process.Workers, units []plan.Unit, waits func(string) error,
) (*installed, error) {
	c := &installed{dir: e.Dir, broken: map[string]error{}, files: map[string]bool{}, reload: map[string]bool{}}
	loaded := map[string]bool{}
	seen := map[string]bool{}
	var found []fresh
	for _, u := range units {
		if u.Listener == nil || len(u.Listener.Certificates) == 0 {
			continue
		}
		if len(seen) == 0 {
			var err error
			if loaded, err = e.loaded(ctx, p); err != nil {
				return nil, err
			}
		}
		for _, id := range u.Listener.Certificates {
			if seen[id] {
				continue
			}
			seen[id] = true
			before, err := os.ReadFile(certificateFile(e.Dir, id))
			c.files[id] = err == nil
			content, err := e.bundle(id)
			if err != nil {
				c.broken[id] = err
			} else if !c.files[id] || !bytes.Equal(before, content) {
				found = append(found, fresh{u.LoadBalancer(), id, content, loaded[certificateFile(e.Dir, id)]})
			}
		}
	}
	if err := e.validate(ctx, found, c); err != nil {
		// They stay as they are.
		for _, f := range found {
			c.broken[f.id] = err
		}
	}
	for _, f := range found {
		if c.broken[f.id] != nil {
			continue
		}
		if err := e.installOne(ctx, c, f, p, waits); err != nil {
			c.broken[f.id] = fmt.Errorf("certificate %q: %w", f.id, err)
		}
	}
	return c, nil
}

func (e *Engine) installOne(ctx context.Context, c *installed, f fresh, p *process.Workers, waits func(string) error) error {
	switch {
	case f.loaded && len(f.content) <= socketLimit:
		if err := e.swap(ctx, p.Current, certificateFile(e.Dir, f.id), f.content); err != nil {
			return err
		}
	case f.loaded:
		if err := waits(f.loadBalancer); err != nil {
			return err
		}
		c.reload[f.loadBalancer] = true
	}
	if err := e.haproxy.Write(filepath.Join(certificateDir, plan.Encode(f.id)+".pem"), f.content); err != nil {
		return err
	}
	c.files[f.id] = true
	return nil
}

// validate notes which certificates HAProxy refuses. It is asked about all that are new at once, and about each once.
func (e *Engine) validate(ctx context.Context, found []fresh, c *installed) error {
	if len(found) == 0 {
		return nil
	}
	if err := os.MkdirAll(e.haproxy.File(candidateDir), 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(e.haproxy.File(candidateDir)) //nolint:errcheck // They are replaced the next time.
	refused := map[[sha256.Size]byte]error{}
	p := &plan.Plan{Backends: []plan.Backend{{Name: "none", Mode: plan.ModeHTTP}}}
	for _, f := range found {
		sum := sha256.Sum256(f.content)
		if err, known := e.refusedCertificates[sum]; known {
			refused[sum] = err
			continue
		}
		file := filepath.Join(candidateDir, plan.Encode(f.id)+".pem")
		if err := e.haproxy.Write(file, f.content); err != nil {
			return err
		}
		p.Frontends = append(p.Frontends, plan.Frontend{
			Name: plan.Encode(f.id), Mode: plan.ModeHTTP, Backend: "none", Certificates: []string{e.haproxy.File(file)},
			Bind: netip.AddrPortFrom(netip.IPv4Unspecified(), 1),
		})
	}
	if len(p.Frontends) > 0 {
		r, err := e.configuration(p, 0)
		if err != nil {
			return err
		}
		sections, err := e.haproxy.Check(ctx, r, "")
		if err != nil {
			return err
		}
		for _, f := range found {
			if err := sections[plan.Encode(f.id)]; err != nil {
				refused[sha256.Sum256(f.content)] = err
			}
		}
	}
	e.refusedCertificates = refused
	for _, f := range found {
		if err := refused[sha256.Sum256(f.content)]; err != nil {
			c.broken[f.id] = fmt.Errorf("certificate %q: %w", f.id, err)
		}
	}
	return nil
}

// bundle returns a certificate and its key in the form that HAProxy reads, with nothing else between them: an empty
// line would end it on the socket.
func (e *Engine) bundle(id string) ([]byte, error) {
	chain, key, ok := e.Certificates.KeyPair(id)
	if !ok {
		return nil, fmt.Errorf("certificate %q is not known", id)
	}
	if _, err := tls.X509KeyPair(chain, key); err != nil {
		return nil, fmt.Errorf("certificate %q: %w", id, err)
	}
	var b bytes.Buffer
	for rest := slices.Concat(chain, []byte("\n"), key); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return b.Bytes(), nil
		}
		block.Headers = nil
		if err := pem.Encode(&b, block); err != nil {
			return nil, err
		}
	}
}

// loaded returns the files of certificates that the worker has loaded.
func (e *Engine) loaded(ctx context.Context, p *process.Workers) (map[string]bool, error) {
	files := map[string]bool{}
	if p == nil || p.Current == 0 {
		return files, nil
	}
	answer, err := e.haproxy.Command(ctx, p.Current, "show ssl cert", "")
	if err != nil {
		return nil, fmt.Errorf("show ssl cert: %w", err)
	}
	for line := range strings.Lines(answer) {
		files[strings.TrimSpace(line)] = true
	}
	return files, nil
}

// swap replaces a certificate in the worker.
func (e *Engine) swap(ctx context.Context, worker int, file string, content []byte) error {
	answer, err := e.haproxy.Command(ctx, worker, "set ssl cert "+file, string(content))
	if err != nil {
		return fmt.Errorf("set ssl cert: %w", err)
	}
	if !strings.Contains(answer, "Transaction created") && !strings.Contains(answer, "Transaction updated") {
		return fmt.Errorf("haproxy refuses it: %s", strings.Join(strings.Fields(answer), " "))
	}
	if answer, err = e.haproxy.Command(ctx, worker, "commit ssl cert "+file, ""); err != nil {
		return fmt.Errorf("commit ssl cert: %w", err)
	}
	if strings.Contains(answer, "Success!") {
		return nil
	}
	if _, err := e.haproxy.Command(ctx, worker, "abort ssl cert "+file, ""); err != nil {
		return fmt.Errorf("abort ssl cert: %w", err)
	}
	return fmt.Errorf("haproxy refuses it: %s", strings.Join(strings.Fields(answer), " "))
}

// clean removes the files of certificates that no listener uses.
func (e *Engine) clean(c *installed) {
	used := map[string]bool{}
	for id := range c.files {
		used[filepath.Base(certificateFile(e.Dir, id))] = true
	}
	entries, _ := os.ReadDir(e.haproxy.File(certificateDir))
	for _, entry := range entries {
		if !used[entry.Name()] {
			_ = os.Remove(filepath.Join(e.haproxy.File(certificateDir), entry.Name()))
		}
	}
}
