// Package trust decides whether API servers accept the certificate of a webhook.
package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Webhook is one webhook of a webhook configuration.
type Webhook struct {
	Name   string
	Client admissionregistrationv1.WebhookClientConfig
}

// Verify returns an error if API servers would reject a certificate, with the intermediates that follow it in the
// chain, when they call the webhook. The error does not depend on the time as long as its cause is the same.
func (w Webhook) Verify(chain []*x509.Certificate, now time.Time) error {
	host, err := w.host()
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if bundle := w.Client.CABundle; len(bundle) > 0 {
		options.Roots = x509.NewCertPool()
		options.Roots.AppendCertsFromPEM(bundle)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("the caBundle of webhook %q does not verify the serving certificate: %w", w.Name, stable(err))
	}
	return nil
}

// stable replaces the error about an invalid period, which contains the current time.
func stable(err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		return err
	}
	return fmt.Errorf("x509: certificate is valid from %s to %s only",
		invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
}

// host returns the name that API servers expect in the certificate.
func (w Webhook) host() (string, error) {
	if service := w.Client.Service; service != nil {
		return service.Name + "." + service.Namespace + ".svc", nil
	}
	if w.Client.URL == nil {
		return "", fmt.Errorf("webhook %q has neither service nor url", w.Name)
	}
	u, err := url.Parse(*w.Client.URL)
	if err != nil {
		return "", fmt.Errorf("webhook %q: parse url: %w", w.Name, err)
	}
	return u.Hostname(), nil
}
