package doctor

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

	"quaymaster.dev/internal/trust"
)

const (
	// defaultCertSecret is the default of the webhook's flag --cert-secret.
	defaultCertSecret = "quaymaster-webhook-tls"
	// certVolume is the chart's volume with certificates from files.
	certVolume = "certs"
)

// authorityKeys and servingKeys are the keys of a certificate and its private key in a Secret: self-signed webhooks issue
// their serving certificates in memory, and share only the CA.
var (
	authorityKeys = [2]string{"ca.crt", "ca.key"}
	servingKeys   = [2]string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
)

// certificate checks that the serving certificate in its Secret, or the self-signed CA, is valid and that API servers
// trust it.
func (e *examination) certificate(ctx context.Context) Result {
	if e.release.webhook == nil {
		return skip(noWebhooks)
	}
	name := e.release.webhook.certSecret()
	if name == "" {
		return skip("the certificate is not stored in a Secret; the check admission covers it")
	}
	secret, err := e.API.CoreV1().Secrets(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return skip("no permission to read Secret %s; the check admission covers the certificate", name)
	}
	if apierrors.IsNotFound(err) {
		remedy := e.certRemedy()
		if e.selfSigned() {
			remedy = "create the Secret again with helm upgrade; running webhooks serve until then"
		}
		return fail(remedy, "Secret %s is missing: webhooks that start have no certificate%s", name, e.reason(ctx))
	}
	if err != nil {
		return unread("Secret "+name, err)
	}
	keys := servingKeys
	if e.selfSigned() {
		keys = authorityKeys
	}
	chain, err := parse(secret.Data[keys[0]])
	if err != nil {
		return fail(e.certRemedy(), "%s in Secret %s: %v%s", keys[0], name, err, e.reason(ctx))
	}
	// The errors of the parser quote neither of them.
	if _, err := tls.X509KeyPair(secret.Data[keys[0]], secret.Data[keys[1]]); err != nil {
		return fail(e.certRemedy(), "%s in Secret %s is not the key of %s, so webhooks cannot use it: %v%s",
			keys[1], name, keys[0], err, e.reason(ctx))
	}
	return e.checkChain(chain)
}

func (e *examination) selfSigned() bool {
	return e.release.webhook.argumentOr("--cert-mode", "") == modeSelfSigned
}

func (e *examination) checkChain(chain []*x509.Certificate) Result {
	end := chain[0].NotAfter
	if e.now().After(end) {
		return fail(e.certRemedy(), "the certificate expired at %s, so API servers reject it", end.Format(time.RFC3339))
	}
	if err := e.trusts(chain); err != nil {
		return fail(e.trustRemedy(), "API servers do not trust the certificate: %v", err)
	}
	if end.Sub(e.now()) < renewal {
		return warn(e.certRemedy(), "the certificate expires at %s and should have been renewed",
			end.Format(time.RFC3339))
	}
	return ok("trusted, valid until %s", end.Format(time.RFC3339))
}

// trusts verifies the chain as API servers and the webhooks themselves do: with the CA bundle of every webhook, for the
// host that it calls. A self-signed CA must be in every bundle; the pods verify their own certificates.
func (e *examination) trusts(chain []*x509.Certificate) error {
	for _, w := range e.release.webhooks() {
		if len(w.client.CABundle) == 0 {
			continue // reported by the check ca-bundle
		}
		if e.selfSigned() {
			bundle, err := parse(w.client.CABundle)
			if err != nil || !slices.ContainsFunc(bundle, chain[0].Equal) {
				return fmt.Errorf("the caBundle of webhook %q does not contain the CA", w.name)
			}
			continue
		}
		if err := (trust.Webhook{Name: w.name, Client: w.client}).Verify(chain, e.now()); err != nil {
			return err
		}
	}
	return nil
}

// trustRemedy returns the remedy for a certificate that API servers do not trust.
func (e *examination) trustRemedy() string {
	switch e.release.webhook.argumentOr("--cert-mode", "") {
	case modeCertManager:
		return "wait a minute for cert-manager's cainjector to distribute the CA; if the problem persists, check that it " +
			"runs, and renew the certificate, whose CA may have been replaced: cmctl renew --namespace " + e.Namespace + " " +
			e.release.webhook.argumentOr("--cert-name-prefix", defaultCertPrefix)
	case modeSelfSigned:
		return "see the logs of the webhook's pods, which write the caBundle"
	}
	return "set webhook.caBundle to the CA of the serving certificate"
}

// certSecret returns the name of the Secret with the certificate; empty if there is none.
func (r *role) certSecret() string {
	mode, known := r.argument("--cert-mode")
	if !known {
		return ""
	}
	if mode != modeFiles {
		// An empty flag keeps the certificate in memory.
		return r.argumentOr("--cert-secret", defaultCertSecret)
	}
	for _, volume := range r.template.Spec.Volumes {
		if volume.Name == certVolume && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}
	return ""
}

func (e *examination) certRemedy() string {
	switch e.release.webhook.argumentOr("--cert-mode", "") {
	case modeCertManager:
		return "see the check cert-manager: cert-manager issues the certificate"
	case modeSelfSigned:
		return "see the logs of the webhook's pods, which create the CA"
	}
	return "write a certificate and its key to the Secret named by certs.secretName"
}

// reason returns a pod's explanation why it has no certificate; empty if no pod can be asked.
func (e *examination) reason(ctx context.Context) string {
	pods, err := e.API.CoreV1().Pods(e.Namespace).List(ctx, e.selector(webhookComponent))
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" {
			continue // it has not started, so there is nothing to ask
		}
		answer, err := e.API.CoreV1().Pods(e.Namespace).ProxyGet("http", pod.Name, healthPort(pod),
			"/readyz/certificate", nil).DoRaw(ctx)
		// The API server itself answers users without the permission to ask pods.
		if text := plain(string(answer)); err != nil && !apierrors.IsForbidden(err) && text != "" {
			return "; pod " + pod.Name + " reports: " + strings.TrimPrefix(text, "internal server error: ")
		}
	}
	return ""
}

// healthPort returns the name of the port on which a pod answers probes.
func healthPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "health" {
				return "health"
			}
		}
	}
	return ""
}

// renewal is how long before its expiry a certificate should have been renewed.
const renewal = 7 * 24 * time.Hour

// authority checks the CA bundles with which API servers verify the webhooks.
func (e *examination) authority(context.Context) Result {
	if e.release.find(validateService) == nil {
		return skip(noWebhooks)
	}
	remedy := "see the check cert-manager: its cainjector writes the caBundle"
	switch e.release.webhook.argumentOr("--cert-mode", "") {
	case modeSelfSigned:
		remedy = "see the logs of the webhook's pods, which write the caBundle"
	case modeFiles, "":
		remedy = "set webhook.caBundle to the CA of the serving certificate"
	}
	var without, problems []string
	last := time.Time{}
	for _, w := range e.release.webhooks() {
		if len(w.client.CABundle) == 0 {
			without = append(without, w.name)
			if e.release.webhook.argumentOr("--cert-mode", "") == modeCertManager && !w.injected {
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
		until := validUntil(authorities, e.now())
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
		return fail(remedy, "%s", strings.Join(problems, "; "))
	case last.Sub(e.now()) < renewal:
		return warn(remedy, "the CA expires at %s and should have been renewed", last.Format(time.RFC3339))
	}
	return ok("valid until %s", last.Format(time.RFC3339))
}

// parse parses all PEM certificates of a bundle.
func parse(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
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
