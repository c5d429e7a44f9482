package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// reloadEvery is the interval for reading the file of the client CA again.
const reloadEvery = 10 * time.Second

// ClientsOptions configures Clients; all fields but Names are required.
type ClientsOptions struct {
	// CAFile is the file with the CAs of the certificates, in PEM.
	CAFile string
	// Names are the common names and DNS names to allow; empty for all.
	Names []string
	// Clock times the reading of the file.
	Clock clock.Clock
}

// Clients authenticates callers by their certificates. It reads the file of the CAs again when it changes.
type Clients struct {
	o       ClientsOptions
	content []byte
	roots   atomic.Pointer[x509.CertPool]
}

// NewClients returns Clients with the current content of the file.
func NewClients(o ClientsOptions) (*Clients, error) {
	c := &Clients{o: o}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// read keeps the last valid content.
func (c *Clients) read() error {
	content, err := os.ReadFile(c.o.CAFile)
	if err != nil {
		return fmt.Errorf("read client CA: %w", err)
	}
	if bytes.Equal(content, c.content) {
		return nil
	}
	roots, err := cert.NewPoolFromBytes(content)
	if err != nil {
		return fmt.Errorf("read client CA %s: %w", c.o.CAFile, err)
	}
	c.content = content
	c.roots.Store(roots)
	return nil
}

// NeedLeaderElection returns false because every replica serves.
func (c *Clients) NeedLeaderElection() bool { return false }

// Start reads the file again when it changes, until the context ends.
func (c *Clients) Start(ctx context.Context) error {
	failing := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.o.Clock.After(reloadEvery):
		}
		reason := ""
		if err := c.read(); err != nil {
			if reason = err.Error(); reason != failing {
				klog.FromContext(ctx).Error(err, "Failed to read the client CA again; the last content stays in use")
			}
		}
		failing = reason
	}
}

// configure makes handshakes fail without a valid certificate. The verification of crypto/tls itself would keep the CAs
// that it started with. onReject is called for each handshake that fails.
func (c *Clients) configure(config *tls.Config, onReject func()) {
	config.ClientAuth = tls.RequestClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := c.verify(state.PeerCertificates)
		if err != nil {
			onReject()
		}
		return err
	}
}

func (c *Clients) verify(presented []*x509.Certificate) error {
	if len(presented) == 0 {
		return errors.New("client presented no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, intermediate := range presented[1:] {
		intermediates.AddCert(intermediate)
	}
	client := presented[0]
	if _, err := client.Verify(x509.VerifyOptions{
		Roots: c.roots.Load(), Intermediates: intermediates, CurrentTime: c.o.Clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("verify client certificate: %w", err)
	}
	allowed := func(name string) bool { return slices.Contains(c.o.Names, name) }
	if len(c.o.Names) == 0 || allowed(client.Subject.CommonName) || slices.ContainsFunc(client.DNSNames, allowed) {
		return nil
	}
	return fmt.Errorf("client certificate for %q has none of the allowed names", client.Subject.CommonName)
}
