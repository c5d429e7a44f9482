package doctor

import (
	"context"
	"crypto/x509"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// defaultCertSecret is where the webhook role keeps its certificate unless told otherwise.
	defaultCertSecret = "quaymaster-webhook-tls"
	// certVolume is the chart's for certificates from files.
	certVolume = "certs"
)

// certificate looks at the serving certificate in its Secret: whether it is valid, and whether API servers trust it.
func (e *examination) certificate(ctx context.Context) Result {
	if e.release.webhook == nil {
		return skip(noWebhooks)
	}
	name := e.release.webhook.certSecret()
	if name == "" {
		return skip("it is in no Secret; the check of admission is made with it")
	}
	secret, err := e.API.CoreV1().Secrets(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return skip("you may not read Secret %s; the check of admission is made with it", name)
	}
	if apierrors.IsNotFound(err) {
		return fail(e.certRemedy(), "Secret %s is missing%s", name, e.reason(ctx))
	}
	if err != nil {
		return unread("Secret "+name, err)
	}
	chain, err := parse(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return fail(e.certRemedy(), "%s in Secret %s %v%s", corev1.TLSCertKey, name, err, e.reason(ctx))
	}
	return e.judgeCertificate(chain)
}

func (e *examination) judgeCertificate(chain []*x509.Certificate) Result {
	end := chain[0].NotAfter
	if e.now().After(end) {
		return fail(e.certRemedy(), "it ended at %s", end.Format(time.RFC3339))
	}
	if err := e.trusts(chain); err != nil {
		return fail("wait a minute for the new authority; if it stays so, restart cert-manager's cainjector, or the webhook's pods if they are self-signed",
			"API servers do not trust it: %v", err)
	}
	if end.Sub(e.now()) < renewal {
		return warn(e.certRemedy(), "it ends at %s", end.Format(time.RFC3339))
	}
	return ok("trusted, valid until %s", end.Format(time.RFC3339))
}

// trusts verifies the chain as API servers do: by the configurations' authorities, for the Service's name.
func (e *examination) trusts(chain []*x509.Certificate) error {
	validate := e.release.find(validateService)
	if validate == nil || len(validate.client.CABundle) == 0 {
		return nil // told by other checks
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(validate.client.CABundle)
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: e.now()}
	if s := validate.client.Service; s != nil {
		options.DNSName = s.Name + "." + s.Namespace + ".svc"
	}
	_, err := chain[0].Verify(options)
	return err
}

// certSecret is the Secret with the certificate; empty if there is none.
func (r *role) certSecret() string {
	mode, known := r.argument("--cert-mode")
	if !known {
		return ""
	}
	if mode != modeFiles {
		// Empty keeps the certificate in memory.
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
		return "see the check of cert-manager, which issues it"
	case modeSelfSigned:
		return "see the logs of the webhook's pods, which make it"
	}
	return "write a certificate and its key into the Secret named by certs.secretName"
}

// reason is what a pod says about why it has no certificate; empty where none can be asked.
func (e *examination) reason(ctx context.Context) string {
	pods, err := e.API.CoreV1().Pods(e.Namespace).List(ctx, e.selector(webhookComponent))
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		answer, err := e.API.CoreV1().Pods(e.Namespace).ProxyGet("http", pod.Name, healthPort(pod), "/readyz/certificate", nil).DoRaw(ctx)
		if text := strings.TrimSpace(string(answer)); err != nil && text != "" {
			return "; pod " + pod.Name + " says: " + strings.TrimPrefix(text, "internal server error: ")
		}
	}
	return ""
}

// healthPort is where a pod answers probes.
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
