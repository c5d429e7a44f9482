package availability_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/load"
)

const (
	// soon bounds steps that take seconds, with a margin for slow machines.
	soon = 30 * time.Second
	// enough is a number of attempts that reaches every replica.
	enough = 100
)

// webhooks are replicas behind one address that the API server calls.
type webhooks struct {
	*env.Env
	audit    auditLog
	balancer *balancer
	// args are the arguments of every replica.
	args []string
	// grace is how long a pod may take to end.
	grace time.Duration
	// values are the values of the chart.
	values env.Values
}

// newWebhooks creates an installation that rejects Services if validation fails, and admits them if mutation fails. So
// every failed call is noticed: by users or in the audit log.
func newWebhooks(t *testing.T, certs map[string]any, caBundle string, args ...string) *webhooks {
	t.Helper()
	audit, serverArgs := audited(t)
	w := &webhooks{Env: env.Start(t, env.Options{APIServerArgs: serverArgs}), audit: audit, balancer: newBalancer(t)}
	w.values = env.Values{"certs": certs, "webhook": map[string]any{
		"url": env.WebhookURL(w.balancer.port), "caBundle": caBundle,
		"failurePolicy": map[string]any{"mutateService": "Ignore", "validateService": "Fail"},
	}}
	if err := w.InstallChart(t.Context(), w.values); err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, "quaymaster-webhook")
	w.grace = time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	w.args = append(flags(t, pod, "--shutdown-delay"), args...)
	return w
}

// replica starts a replica and forwards connections to it once it is ready.
func (w *webhooks) replica(t *testing.T) *env.Webhook {
	t.Helper()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	started, err := w.StartWebhook(t.Context(), port, w.args...)
	if err != nil {
		t.Fatal(err)
	}
	w.balancer.add(t, started)
	return started
}

// load starts once the webhooks are called. No call may have failed when it ends.
func (w *webhooks) load(t *testing.T) *load.Load {
	t.Helper()
	user, err := client.New(w.User, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "a first Service", func(ctx context.Context) error { return load.Try(ctx, user, "first", false) })
	begin := w.audit.end(t)
	t.Cleanup(func() {
		for _, event := range w.audit.since(t, begin) {
			for key, value := range event.Annotations {
				if strings.HasPrefix(key, "failed-open.") {
					t.Errorf("%s %s was admitted without a webhook: %s", event.Verb, event.RequestURI, value)
				}
			}
		}
	})
	l := load.Start(t, load.Options{Client: user, Stored: true})
	l.More(t, enough)
	return l
}

// roll replaces a replica as a Deployment with maxSurge 1 and maxUnavailable 0 does: the new one is ready first. The
// old one gets its signal before clients know about it, and ends in time.
func (w *webhooks) roll(t *testing.T, old *env.Webhook) *env.Webhook {
	t.Helper()
	started := w.replica(t)
	if err := old.Stop(w.grace); err != nil {
		t.Error(err)
	}
	if how := old.How(); how != "exit status 0" {
		t.Errorf("a replica ended with %s", how)
	}
	return started
}

// Every replica is replaced without a failed call.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t, map[string]any{"mode": "self-signed"}, "", shared()...)
	first, second := w.replica(t), w.replica(t)
	l := w.load(t)
	for _, old := range []*env.Webhook{first, second} {
		w.roll(t, old)
		l.More(t, enough)
	}
}

// shared makes replicas share one authority in the chart's Secret.
func shared() []string {
	return []string{"--namespace=" + env.Namespace, "--cert-secret=quaymaster-webhook-self-signed"}
}

// The authority of two replicas is replaced by the documented command.
func TestAuthorityRotation(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t, map[string]any{"mode": "self-signed"}, "", shared()...)
	first, second := w.replica(t), w.replica(t)
	l := w.load(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-webhook-self-signed"}}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["ca.crt"])
	old, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(served(t, first).CheckSignatureFrom(old), served(t, second).CheckSignatureFrom(old)); err != nil {
		t.Fatalf("the old authority was not used under load: %v", err)
	}
	out, err := env.Kubectl(t.Context(), w.AdminKubeconfig, "", "--namespace", env.Namespace,
		"patch", "secret", secret.Name, "--type=merge", "--patch", `{"data":null}`)
	if err != nil || out.Code != 0 {
		t.Fatalf("%v: %+v", err, out)
	}
	for _, replica := range []*env.Webhook{first, second} {
		env.Eventually(t, soon, "a certificate of the new authority", func(context.Context) error {
			if served(t, replica).CheckSignatureFrom(old) == nil {
				return errors.New("it is one of the old authority")
			}
			return nil
		})
	}
	l.More(t, enough)
	// The new replica only gets connections with the new certificate.
	w.roll(t, first)
	l.More(t, enough)
}

// Files are rotated in the documented order: the new authority is trusted first, and the old one is removed last.
func TestFileRotation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	from, until := now.Add(-time.Hour), now.Add(time.Hour)
	before, after := authority.New(t, "before", from, until), authority.New(t, "after", from, until)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(pair *authority.Pair) {
		for file, text := range map[string][]byte{certFile: pair.PEM(), keyFile: pair.KeyPEM(t)} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(before.Serving(t, from, until))
	w := newWebhooks(t, map[string]any{"mode": "files"}, string(before.PEM()),
		"--cert-mode=files", "--tls-cert-file="+certFile, "--tls-private-key-file="+keyFile)
	replicas := []*env.Webhook{w.replica(t), w.replica(t)}
	l := w.load(t)

	trust := func(bundle []byte) {
		w.values["webhook"].(map[string]any)["caBundle"] = string(bundle)
		if err := w.InstallChart(t.Context(), w.values); err != nil {
			t.Fatal(err)
		}
		l.More(t, enough)
	}
	trust(append(before.PEM(), after.PEM()...))
	next := after.Serving(t, from, until)
	write(next)
	for _, replica := range replicas {
		env.Eventually(t, soon, "the new certificate", func(context.Context) error {
			if !served(t, replica).Equal(next.Cert) {
				return errors.New("it is the old one")
			}
			return nil
		})
	}
	l.More(t, enough)
	trust(after.PEM())
	l.More(t, enough)
}

// served returns the certificate that a new connection gets.
func served(t *testing.T, w *env.Webhook) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", w.Address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}
