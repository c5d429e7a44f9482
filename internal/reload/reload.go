// Package reload makes values from files, and makes them again when the files change.
package reload

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// settled is how old a file must be when it is read for a later change to show in its time of modification, of which some
// file systems keep only the second.
const settled = 2 * time.Second

// Files is a value made from files. It is safe for concurrent use.
type Files[T any] struct {
	paths  []string
	build  func(contents [][]byte) (T, error)
	failed func(error)

	mu sync.Mutex
	// read is when the files were read last, and seen and contents what they were then.
	read     time.Time
	seen     []os.FileInfo
	contents [][]byte
	// value is made from the last valid contents, if there have been any; err is why the present ones are not valid.
	value T
	valid bool
	err   error
}

// New returns a value made from files; paths may be empty for files without content. It does no I/O. failed, if set, is
// called once for each problem of later contents: the former value then stays in use.
func New[T any](paths []string, build func(contents [][]byte) (T, error), failed func(error)) *Files[T] {
	return &Files[T]{paths: paths, build: build, failed: failed}
}

// Get returns the value for the present contents or, if they are not valid, for example because they are being replaced,
// for the last ones that were. The error is for files that have never been valid.
func (f *Files[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed() {
		f.refresh()
	}
	if f.valid {
		return f.value, nil
	}
	return f.value, f.err
}

// changed reports whether the files may have other contents than those that were read. It looks at them before they are
// read: a change in between shows the next time.
func (f *Files[T]) changed() bool {
	former := f.seen
	f.seen = make([]os.FileInfo, len(f.paths))
	changed := len(former) == 0
	for i, path := range f.paths {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			changed = true
			continue
		}
		f.seen[i] = info
		changed = changed || former[i] == nil || !os.SameFile(info, former[i]) || info.Size() != former[i].Size() ||
			!info.ModTime().Equal(former[i].ModTime()) || f.read.Sub(info.ModTime()) < settled
	}
	return changed
}

func (f *Files[T]) refresh() {
	f.read = time.Now()
	contents, err := readAll(f.paths)
	if err == nil && slices.EqualFunc(contents, f.contents, bytes.Equal) {
		return
	}
	f.contents = contents
	var value T
	if err == nil {
		value, err = f.build(contents)
	}
	switch {
	case err == nil:
		f.value, f.valid = value, true
	case f.valid && f.failed != nil && (f.err == nil || f.err.Error() != err.Error()):
		f.failed(fmt.Errorf("%w; the former content stays in use", err))
	}
	f.err = err
}

func readAll(paths []string) ([][]byte, error) {
	contents := make([][]byte, len(paths))
	for i, path := range paths {
		if path == "" {
			continue
		}
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// CAs returns the certificate authorities in a file in PEM. failed is that of New.
func CAs(file string, failed func(error)) *Files[*x509.CertPool] {
	return New([]string{file}, func(contents [][]byte) (*x509.CertPool, error) {
		pool, err := parse(contents[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return pool, nil
	}, failed)
}

// parse is stricter than x509.CertPool, which leaves out certificates that it cannot parse.
func parse(content []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("must contain valid certificates: %w", err)
		}
		pool.AddCert(certificate)
		found++
	}
	if found == 0 {
		return nil, errors.New("must contain certificates in PEM")
	}
	return pool, nil
}
