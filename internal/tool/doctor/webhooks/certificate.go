package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/kube/trust"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/pods"
	"quaymaster.dev/internal/tool/doctor/release"
)

// authorityKeys and servingKeys are the keys of a certificate and its private key in a Secret: self-signed webhooks issue
// their serving certificates in memory, and share only the CA.
var (
	authorityKeys = [2]string{"ca.crt", "ca.key"}
	servingKeys   = [2]string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
)

// Certificate checks that the serving certificate in its Secret, or the self-signed CA, is valid and that API servers
// trust it.
func (c *Checks) Certificate(ctx context.Context) doctor.Result {
	if c.Webhook == nil {
		return doctor.Skipped(noWebhooks)
	}
	from := c.Webhook.Certificate()
	if from.Secret == "" {
		return doctor.Skipped("the certificate is not stored in a Secret; the check admission covers it")
	}
	keys := servingKeys
	if from.Mode == release.SelfSigned {
		keys = authorityKeys
	}
	remedy, _ := remedies(from.Mode)
	secret, err := c.API.CoreV1().Secrets(c.Namespace).Get(ctx, from.Secret, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return doctor.Skipped("no permission to read Secret %s; the check admission covers the certificate", from.Secret)
	}
	if apierrors.IsNotFound(err) {
		if from.Mode == release.SelfSigned {
			remedy = "create the Secret again with helm upgrade; running webhooks serve until then"
		}
		return doctor.Failed(remedy, "Secret %s is missing: webhooks that start have no certificate%s", from.Secret,
			c.uncertified(ctx))
	}
	if err != nil {
		return doctor.Unread("Secret "+from.Secret, err)
	}
	chain, err := parse(secret.Data[keys[0]])
	if err != nil {
		return doctor.Failed(remedy, "%s in Secret %s: %v%s", keys[0], from.Secret, err, c.uncertified(ctx))
	}
	// The errors of the parser quote neither of them.
	if _, err := tls.X509KeyPair(secret.Data[keys[0]], secret.Data[keys[1]]); err != nil {
		return doctor.Failed(remedy, "%s in Secret %s is not the key of %s, so webhooks cannot use it: %v%s",
			keys[1], from.Secret, keys[0], err, c.uncertified(ctx))
	}
	return c.checkChain(from, chain)
}

// uncertified returns a pod's explanation why it has no certificate.
func (c *Checks) uncertified(ctx context.Context) string {
	return pods.Checks{Release: c.Release}.Uncertified(ctx)
}

func (c *Checks) checkChain(from release.Certificate, chain []*x509.Certificate) doctor.Result {
	end := chain[0].NotAfter
	renew, trusted := remedies(from.Mode)
	if c.Now().After(end) {
		return doctor.Failed(renew, "the certificate expired at %s, so API servers reject it", end.Format(time.RFC3339))
	}
	if err := c.trusts(from, chain); err != nil {
		if from.Mode == release.CertManager {
			trusted = "wait a minute for cert-manager's cainjector to distribute the CA; if the problem persists, check that it " +
				"runs, and renew the certificate, whose CA may have been replaced: cmctl renew --namespace " + c.Namespace + " " +
				from.Serving()
		}
		return doctor.Failed(trusted, "API servers do not trust the certificate: %v", err)
	}
	if end.Sub(c.Now()) < renewal {
		return doctor.Warned(renew, "the certificate expires at %s and should have been renewed", end.Format(time.RFC3339))
	}
	return doctor.Passed("trusted, valid until %s", end.Format(time.RFC3339))
}

// trusts verifies the chain as API servers and the webhooks themselves do: with the CA bundle of every webhook, for the
// host that it calls. A self-signed CA must be in every bundle; the pods verify their own certificates.
func (c *Checks) trusts(from release.Certificate, chain []*x509.Certificate) error {
	for _, w := range c.webhooks() {
		if len(w.client.CABundle) == 0 {
			continue // reported by the check ca-bundle
		}
		if from.Mode == release.SelfSigned {
			bundle, err := parse(w.client.CABundle)
			if err != nil || !slices.ContainsFunc(bundle, chain[0].Equal) {
				return fmt.Errorf("the caBundle of webhook %q does not contain the CA", w.name)
			}
			continue
		}
		if err := (trust.Webhook{Name: w.name, Client: w.client}).Verify(chain, c.Now()); err != nil {
			return err
		}
	}
	return nil
}

// remedies returns what to do about a certificate, and about the caBundle that verifies it.
func remedies(mode string) (certificate, bundle string) {
	switch mode {
	case release.CertManager:
		return "see the check cert-manager: cert-manager issues the certificate",
			"see the check cert-manager: its cainjector writes the caBundle"
	case release.SelfSigned:
		return "see the logs of the webhook's pods, which create the CA",
			"see the logs of the webhook's pods, which write the caBundle"
	}
	return "write a certificate and its key to the Secret named by certs.secretName",
		"set webhook.caBundle to the CA of the serving certificate"
}

// renewal is how long before its expiry a certificate should have been renewed.
const renewal = 7 * 24 * time.Hour

// Authority checks the CA bundles with which API servers verify the webhooks.
func (c *Checks) Authority(context.Context) doctor.Result {
	if c.find(validateService) == nil {
		return doctor.Skipped(noWebhooks)
	}
	mode := c.Webhook.Certificate().Mode
	_, remedy := remedies(mode)
	var without, problems []string
	last := time.Time{}
	for _, w := range c.webhooks() {
		if len(w.client.CABundle) == 0 {
			without = append(without, w.name)
			if mode == release.CertManager && !w.injected {
				remedy = "restore the annotation " + annotationInject + " of the webhook configurations with helm upgrade: " +
					"cainjector writes no caBundle without it"
			}
			continue
		}
		authorities, err := parse(w.client.CABundle)
		if err != nil {
			problems = append(problems, fmt.Sprintf("caBundle of webhook %s: %v", w.name, err))
			continue
		}
		until := validUntil(authorities, c.Now())
		if until.IsZero() {
			problems = append(problems,
				fmt.Sprintf("caBundle of webhook %s contains no valid certificate, the first expires at %s",
					w.name, authorities[0].NotAfter.Format(time.RFC3339)))
			continue
		}
		if last.IsZero() || until.Before(last) {
			last = until
		}
	}
	if len(without) > 0 {
		problems = append([]string{"webhooks without a caBundle, for which API servers trust only public CAs: " +
			strings.Join(without, ", ")}, problems...)
	}
	switch {
	case len(problems) > 0:
		return doctor.Failed(remedy, "%s", strings.Join(problems, "; "))
	case last.Sub(c.Now()) < renewal:
		return doctor.Warned(remedy, "the CA expires at %s and should have been renewed", last.Format(time.RFC3339))
	}
	return doctor.Passed("valid until %s", last.Format(time.RFC3339))
}

// parse parses all PEM certificates of a bundle.
func parse(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("contains no PEM certificate")
	}
	return all, nil
}

// validUntil returns the expiry of the certificate that is valid longest; zero if none is valid now.
func validUntil(certs []*x509.Certificate, now time.Time) time.Time {
	var until time.Time
	for _, c := range certs {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			continue
		}
		if c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	return until
}
