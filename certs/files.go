package certs

import (
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Files is a certificate and its key in files of PEM that somebody else renews. While they do not fit together, as between the
// writing of the one and the other, the last good pair stays in use.
type Files struct{ *certwatcher.CertWatcher }

var _ Source = (*Files)(nil)

// NewFiles reads the files for the first time.
func NewFiles(certFile, keyFile string) (*Files, error) {
	watcher, err := certwatcher.New(certFile, keyFile)
	var path *fs.PathError
	switch {
	case err == nil:
		return &Files{watcher}, nil
	case errors.As(err, &path):
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	// A certificate and key that parse, each on its own, but do not match, or what is no PEM at all.
	return nil, fmt.Errorf("read serving certificate %s with key %s: %w", certFile, keyFile, err)
}
