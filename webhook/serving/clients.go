package serving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/reload"
)

// ClientsOptions configures Clients; all fields but Names are required.
type ClientsOptions struct {
	// CAFile is the file with the CAs of the certificates, in PEM.
	CAFile string
	// Names are the common names and DNS names to allow; empty for all.
	Names []string
	// Logger gets the errors of reading the file again.
	Logger logr.Logger
	// Clock times the validity of certificates.
	Clock clock.PassiveClock
}

// Clients authenticates callers by their certificates.
type Clients struct {
	o           ClientsOptions
	authorities *reload.Files[*x509.CertPool]
}

// NewClients returns Clients with the current content of the file.
func NewClients(o ClientsOptions) (*Clients, error) {
	authorities := reload.CAs(o.CAFile, func(err error) { o.Logger.Error(err, "Failed to reload the client CA") })
	if _, err := authorities.Get(); err != nil {
		return nil, err
	}
	return &Clients{o, authorities}, nil
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
	roots, err := c.authorities.Get()
	if err != nil {
		return err
	}
	intermediates := x509.NewCertPool()
	for _, intermediate := range presented[1:] {
		intermediates.AddCert(intermediate)
	}
	client := presented[0]
	if _, err := client.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: c.o.Clock.Now(),
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
