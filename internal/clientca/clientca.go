// Package clientca keeps the authorities of client certificates up to date with their file.
package clientca

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Authorities are those in a file, which is read again when it changes. It is safe for concurrent use.
type Authorities struct {
	file   string
	failed func(error)

	mu sync.Mutex
	// read is what the file was when it was read, and failing is true since it cannot be read at all.
	read    os.FileInfo
	failing bool
	// pool has the last valid content.
	pool *x509.CertPool
}

// New reads the file, which contains certificates in PEM. failed is called once for each later content that is not valid,
// for example because the file is being replaced: the former authorities then stay in use.
func New(file string, failed func(error)) (*Authorities, error) {
	a := &Authorities{file: file, failed: failed}
	if err := a.reread(); err != nil {
		return nil, err
	}
	return a, nil
}

// Pool returns the authorities, as the file has them now.
func (a *Authorities) Pool() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.reread(); err != nil {
		a.failed(fmt.Errorf("%w; the former content stays in use", err))
	}
	return a.pool
}

// reread reads the file if it has changed. It returns an error once for each change.
func (a *Authorities) reread() error {
	// Looked at before it is read: if it changes meanwhile, it is read again the next time.
	info, err := os.Stat(a.file)
	if err == nil && !a.failing && a.read != nil && os.SameFile(info, a.read) &&
		info.ModTime().Equal(a.read.ModTime()) && info.Size() == a.read.Size() {
		return nil
	}
	content, err := os.ReadFile(a.file)
	known := a.failing && err != nil
	if a.failing = err != nil; known {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read client CA: %w", err)
	}
	a.read = info
	pool, err := parse(content)
	if err != nil {
		return fmt.Errorf("client CA %s: %w", a.file, err)
	}
	a.pool = pool
	return nil
}

// parse is stricter than x509.CertPool, which leaves out certificates that it cannot parse.
func parse(content []byte) (*x509.CertPool, error) {
	pool, empty := x509.NewCertPool(), true
	for {
		block, rest := pem.Decode(content)
		if block == nil && empty {
			return nil, errors.New("must contain certificates in PEM")
		}
		if block == nil {
			return pool, nil
		}
		content = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("must contain valid certificates: %w", err)
		}
		pool.AddCert(certificate)
		empty = false
	}
}
