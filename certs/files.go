package certs

import (
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Files provides a certificate and key from PEM files that others renew. While the files do not match, as between
// writing one and the other, the last valid pair stays in use.
type Files struct{ *certwatcher.CertWatcher }

var _ Source = (*Files)(nil)

// NewFiles returns a source for the files, which must contain a valid pair.
func NewFiles(certFile, keyFile string) (*Files, error) {
	watcher, err := certwatcher.New(certFile, keyFile)
	var path *fs.PathError
	switch {
	case err == nil:
		return &Files{watcher}, nil
	case errors.As(err, &path):
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	// The certificate and the key do not match, or one of them is not PEM.
	return nil, fmt.Errorf("read serving certificate %s with key %s: %w", certFile, keyFile, err)
}
