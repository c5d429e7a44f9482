package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// renewal is how long before its end a certificate should have been replaced.
const renewal = 7 * 24 * time.Hour

// authority looks at the authorities by which API servers trust the webhooks.
func (e *examination) authority(context.Context) Result {
	if e.release.find(validateService) == nil {
		return skip(noWebhooks)
	}
	remedy := "see the check of cert-manager: its cainjector puts the authority there"
	switch e.release.webhook.argumentOr("--cert-mode", "") {
	case modeSelfSigned:
		remedy = "see the logs of the webhook's pods, which put the authority there"
	case modeFiles, "":
		remedy = "put the authority of the serving certificate into webhook.caBundle"
	}
	var problems []string
	last := time.Time{}
	for _, w := range e.release.webhooks() {
		if len(w.client.CABundle) == 0 {
			problems = append(problems, w.name+" has none, so API servers trust nobody there but public authorities")
			continue
		}
		authorities, err := parse(w.client.CABundle)
		if err != nil {
			problems = append(problems, fmt.Sprintf("that of %s: %v", w.name, err))
			continue
		}
		until := validUntil(authorities, e.now())
		if until.IsZero() {
			problems = append(problems, fmt.Sprintf("that of %s is not valid: it ended at %s", w.name, authorities[0].NotAfter.Format(time.RFC3339)))
			continue
		}
		if last.IsZero() || until.Before(last) {
			last = until
		}
	}
	switch {
	case len(problems) > 0:
		return fail(remedy, "%s", strings.Join(problems, "; "))
	case last.Sub(e.now()) < renewal:
		return warn(remedy, "it ends at %s", last.Format(time.RFC3339))
	}
	return ok("valid until %s", last.Format(time.RFC3339))
}

// parse reads certificates in PEM, all of them.
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
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return all, nil
}

// validUntil is the end of the certificate that is valid longest; zero if none is valid now.
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

// defaultCertPrefix begins the names of the role's cert-manager objects unless told otherwise.
const defaultCertPrefix = "quaymaster-webhook"

// certManager looks whether cert-manager has done its part.
func (e *examination) certManager(ctx context.Context) Result {
	if mode := e.release.webhook.argumentOr("--cert-mode", ""); mode != modeCertManager {
		return skip("the serving certificate is not cert-manager's to make")
	}
	prefix := e.release.webhook.argumentOr("--cert-name-prefix", defaultCertPrefix)
	var ready, waiting []string
	for _, resource := range []string{"issuers", "certificates"} {
		list, err := e.Objects.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: resource}).
			Namespace(e.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return fail("install cert-manager, or choose certs.mode=self-signed; the webhook's pods wait for it", "cert-manager.io/v1 is not served")
		}
		if err != nil {
			return unread("cert-manager's "+resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !strings.HasPrefix(object.GetName(), prefix) {
				continue
			}
			var status struct {
				Status conditions `json:"status"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &status); err != nil {
				return fail("delete it: it is made anew", "%s %s cannot be read: %v", object.GetKind(), object.GetName(), err)
			}
			name := object.GetKind() + " " + object.GetName()
			if problem := status.Status.not("Ready"); problem != "" {
				waiting = append(waiting, fmt.Sprintf("%s is %s", name, problem))
			} else {
				ready = append(ready, name)
			}
		}
	}
	switch {
	case len(waiting) > 0:
		return fail("see whether cert-manager's pods run, and kubectl --namespace "+e.Namespace+" describe certificates", "%s", strings.Join(waiting, "; "))
	case len(ready) == 0 && e.release.webhook.argumentOr("--cert-manager-managed", "true") == "false":
		return skip("certs.certManager.managed is false, and whoever manages them calls them something else")
	case len(ready) == 0:
		return fail("see the logs of the webhook's pods, which make them",
			"there are no issuers and certificates that begin with %s%s", prefix, e.reason(ctx))
	}
	return ok("%s are ready", strings.Join(ready, ", "))
}
