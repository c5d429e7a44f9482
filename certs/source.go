package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Source provides the current serving certificate.
type Source interface {
	// GetCertificate implements GetCertificate of tls.Config.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start keeps the certificate up to date until the context ends.
	Start(ctx context.Context) error
}

// ServerOptions configures TLS for a server with certificates of the source. HTTP/2 is optional: API servers keep few
// connections, on which HTTP/1.1 costs the webhook about a third less processor time.
func ServerOptions(source Source, http2 bool) func(*tls.Config) {
	return func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		c.GetCertificate = source.GetCertificate
		c.NextProtos = []string{"http/1.1"}
		if http2 {
			c.NextProtos = []string{"h2", "http/1.1"}
		}
	}
}

// RegisterExpiry registers a metric with the expiry of the current certificate.
func RegisterExpiry(registerer prometheus.Registerer, source Source) error {
	return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quaymaster_webhook_certificate_expiration_timestamp_seconds",
		Help: "Expiry of the serving certificate of the webhooks, in seconds since 1970; 0 if there is none.",
	}, func() float64 {
		chain, err := current(source)
		if err != nil {
			return 0
		}
		return float64(chain[0].NotAfter.Unix())
	}))
}

// current returns the serving certificate, followed by the intermediates that are sent with it.
func current(source Source) ([]*x509.Certificate, error) {
	served, err := source.GetCertificate(nil)
	if err != nil {
		return nil, fmt.Errorf("get serving certificate: %w", err)
	}
	var chain []*x509.Certificate
	for _, der := range served.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("parse serving certificate: %w", err)
		}
		chain = append(chain, cert)
	}
	return chain, nil
}
