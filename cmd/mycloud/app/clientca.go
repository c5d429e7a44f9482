package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
)

// authorities are those of client certificates, in a file that is read again for each connection.
type authorities struct {
	path string

	mu      sync.Mutex
	content []byte
	pool    *x509.CertPool
}

// latest returns the authorities in the file or, if it cannot be read, for example because it is being replaced, the former
// ones.
func (a *authorities) latest() (*x509.CertPool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	content, err := os.ReadFile(a.path)
	if err == nil && (a.pool == nil || !bytes.Equal(content, a.content)) {
		pool := x509.NewCertPool()
		if pool.AppendCertsFromPEM(content) {
			a.pool, a.content = pool, content
		} else {
			err = fmt.Errorf("%s: must contain certificates in PEM", a.path)
		}
	}
	if a.pool == nil {
		return nil, err
	}
	return a.pool, nil
}

// acceptClients makes servers with the configuration verify client certificates, if clients send any.
func acceptClients(config *tls.Config, path string) error {
	a := &authorities{path: path}
	if _, err := a.latest(); err != nil {
		return err
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	// A session that is resumed would not be verified by the present authorities.
	config.SessionTicketsDisabled = true
	// The server adds the second one only to the configuration that it has itself.
	config.NextProtos = []string{"h2", "http/1.1"}
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := a.latest()
		if err != nil {
			return nil, err
		}
		current := base.Clone()
		current.ClientCAs = pool
		return current, nil
	}
	return nil
}
