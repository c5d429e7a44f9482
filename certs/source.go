package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Source provides the current serving certificate.
type Source interface {
	// GetCertificate implements GetCertificate of tls.Config.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start keeps the certificate up to date until the context ends.
	Start(ctx context.Context) error
}

// problem describes why something does not work; empty if it does.
type problem struct{ text atomic.Pointer[string] }

func (p *problem) String() string { return *cmp.Or(p.text.Load(), new("")) }

// set reports whether the problem has changed.
func (p *problem) set(text string) bool {
	before := p.String()
	p.text.Store(&text)
	return text != before
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
func RegisterExpiry(registerer prometheus.Registerer, source Source) {
	promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quaymaster_webhook_certificate_expiration_timestamp_seconds",
		Help: "Expiry of the serving certificate of the webhooks, in seconds since 1970; 0 if there is none.",
	}, func() float64 {
		served, err := source.GetCertificate(nil)
		if err != nil {
			return 0
		}
		return float64(served.Leaf.NotAfter.Unix())
	})
}

// chainOf returns a serving certificate, followed by the intermediates that are sent with it.
func chainOf(served *tls.Certificate) ([]*x509.Certificate, error) {
	return x509.ParseCertificates(slices.Concat(served.Certificate...))
}
