package haproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// certificateDir has a file for each certificate: the chain and then the key. The content of a file is what HAProxy has
// loaded, or will load with the next reload.
const certificateDir = "certs"

// socketLimit is how long a certificate may be to pass through HAProxy's socket.
const socketLimit = 15 << 10

// installed are the certificates of the listeners as files.
type installed struct {
	dir string
	// broken has why a certificate is not as it should be. Those with a file go on as they were.
	broken map[string]error
	files  map[string]bool
	// changed is true if a file has changed, reload if HAProxy must load one again.
	changed, reload bool
}

// file returns the file of a certificate.
func (c *installed) file(id string) (string, error) {
	if !c.files[id] {
		return "", c.broken[id]
	}
	return certificateFile(c.dir, id), nil
}

func certificateFile(dir, id string) string {
	return filepath.Join(dir, certificateDir, encode(id)+".pem")
}

// faults returns the listeners that go on with an earlier certificate.
func (c *installed) faults(units []unit) []cloudv1.EdgeFault {
	var faults []cloudv1.EdgeFault
	for _, u := range units {
		if u.listener == nil {
			continue
		}
		for _, id := range u.listener.Certificates {
			if err := c.broken[id]; err != nil && c.files[id] {
				faults = append(faults, u.fault(fmt.Errorf("goes on with an earlier certificate: %w", err)))
			}
		}
	}
	return faults
}

// install writes the certificates of all listeners. Those that HAProxy has loaded are replaced in the process.
func (e *Engine) install(ctx context.Context, p *processes, units []unit) (*installed, error) {
	c := &installed{dir: e.Dir, broken: map[string]error{}, files: map[string]bool{}}
	var loaded map[string]bool
	for _, u := range units {
		if u.listener == nil {
			continue
		}
		for _, id := range u.listener.Certificates {
			if c.files[id] || c.broken[id] != nil {
				continue
			}
			if loaded == nil {
				var err error
				if loaded, err = e.loaded(ctx, p); err != nil {
					return nil, err
				}
			}
			if err := e.installOne(ctx, c, id, p, loaded); err != nil {
				return nil, fmt.Errorf("certificate %q: %w", id, err)
			}
		}
	}
	return c, nil
}

func (e *Engine) installOne(ctx context.Context, c *installed, id string, p *processes, loaded map[string]bool) error {
	file := certificateFile(e.Dir, id)
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c.files[id] = before != nil
	content, err := e.bundle(id)
	if err != nil {
		c.broken[id] = err
		return nil
	}
	if bytes.Equal(before, content) {
		return nil
	}
	switch {
	case loaded[file] && len(content) <= socketLimit:
		refused, err := e.swap(ctx, p.current, file, content)
		if err != nil {
			return err
		}
		if refused != "" {
			c.broken[id] = fmt.Errorf("certificate %q: haproxy refuses it: %s", id, refused)
			return nil
		}
	case loaded[file]:
		c.reload = true
	}
	c.changed, c.files[id] = true, true
	return e.write(filepath.Join(certificateDir, encode(id)+".pem"), content)
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
func (e *Engine) loaded(ctx context.Context, p *processes) (map[string]bool, error) {
	files := map[string]bool{}
	if p == nil || p.current == 0 {
		return files, nil
	}
	answer, err := e.master.worker(ctx, p.current, "show ssl cert", "")
	if err != nil {
		return nil, fmt.Errorf("show ssl cert: %w", err)
	}
	for line := range strings.Lines(answer) {
		files[strings.TrimSpace(line)] = true
	}
	return files, nil
}

// swap replaces a certificate in the worker, and returns why HAProxy refuses it.
func (e *Engine) swap(ctx context.Context, worker int, file string, content []byte) (refused string, err error) {
	answer, err := e.master.worker(ctx, worker, "set ssl cert "+file, string(content))
	if err != nil {
		return "", fmt.Errorf("set ssl cert: %w", err)
	}
	if !strings.Contains(answer, "Transaction created") && !strings.Contains(answer, "Transaction updated") {
		return strings.Join(strings.Fields(answer), " "), nil
	}
	if answer, err = e.master.worker(ctx, worker, "commit ssl cert "+file, ""); err != nil {
		return "", fmt.Errorf("commit ssl cert: %w", err)
	}
	if strings.Contains(answer, "Success!") {
		return "", nil
	}
	if _, err := e.master.worker(ctx, worker, "abort ssl cert "+file, ""); err != nil {
		return "", fmt.Errorf("abort ssl cert: %w", err)
	}
	return strings.Join(strings.Fields(answer), " "), nil
}

// clean removes the files of certificates that no listener uses.
func (e *Engine) clean(c *installed) {
	used := map[string]bool{}
	for id := range c.files {
		used[filepath.Base(certificateFile(e.Dir, id))] = true
	}
	entries, _ := os.ReadDir(e.file(certificateDir))
	for _, entry := range entries {
		if !used[entry.Name()] {
			_ = os.Remove(filepath.Join(e.file(certificateDir), entry.Name()))
		}
	}
}
