package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
)

// install creates a separate installation with the failure policy Fail for webhooks on a port. certs and webhook may
// hold further values.
func install(t *testing.T, name string, certs, webhook map[string]any) (port int) {
	t.Helper()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	removeConfigurations(t, name)
	apply(t, name, port, certs, webhook)
	return port
}

// apply creates or changes such an installation.
func apply(t *testing.T, name string, port int, certs, webhook map[string]any) {
	t.Helper()
	v := values(env.WebhookURL(port), "Fail")
	v["fullnameOverride"] = name
	if certs != nil { // for Helm, null removes certs altogether
		v["certs"] = certs
	}
	maps.Copy(v["webhook"].(map[string]any), webhook)
	if err := shared.InstallChart(t.Context(), v); err != nil {
		t.Fatal(err)
	}
}

// start runs a webhook process of an installation in addition to the shared one, until the test ends.
func start(t *testing.T, name string, port int, args ...string) *env.Webhook {
	t.Helper()
	process, err := shared.StartWebhook(t.Context(), port, append(account(t, name), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if process.Exit() != nil {
			return
		}
		if err := process.Stop(soon); err != nil {
			t.Error(err)
		}
	})
	return process
}

// account returns the arguments that make a webhook process part of the installation.
func account(t *testing.T, name string) []string {
	t.Helper()
	kubeconfig, err := shared.ServiceAccountKubeconfig(t.Context(), env.Namespace, name+"-webhook")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--kubeconfig=" + kubeconfig, "--mutating-webhook-configuration=" + name, "--validating-webhook-configuration=" + name}
}

// served returns the certificate that a new connection gets.
func served(t *testing.T, port int) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// pause is the time between the requests of a user. Without it, a test that waits for a change keeps all cores busy.
const pause = 20 * time.Millisecond

// load creates Services in dry runs until the test ends. Every one must be admitted.
func load(t *testing.T) *atomic.Int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	created := &atomic.Int64{}
	for range 2 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := shared.Client.Create(ctx, service("load"), client.DryRunAll); err == nil {
					created.Add(1)
				} else if ctx.Err() == nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				time.Sleep(pause)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		workers.Wait()
	})
	return created
}

// The shortest validity rotates after 20 s. No request may fail before, during or after the change of the certificate.
func TestSelfSignedRotationUnderLoad(t *testing.T) {
	port := install(t, "rotating", nil, nil)
	start(t, "rotating", port, "--self-signed-validity=30s")
	first := served(t, port)
	admitted := func(ctx context.Context) error {
		return shared.Client.Create(ctx, service("load"), client.DryRunAll)
	}
	env.Eventually(t, soon, "admission with the first certificate", admitted)
	created := load(t)
	env.Eventually(t, time.Minute, "a new certificate", func(context.Context) error {
		if served(t, port).Equal(first) {
			return errors.New("it is the old one")
		}
		return nil
	})
	atChange := created.Load()
	env.Eventually(t, soon, "requests after the change", func(context.Context) error {
		if t.Failed() {
			return nil
		}
		if n := created.Load() - atChange; n < 100 {
			return fmt.Errorf("only %d", n)
		}
		return nil
	})
	t.Logf("%d requests before the change, %d after it", atChange, created.Load()-atChange)
}

// With an authority in memory, a restart creates a new one; after a crash Services are rejected, under Fail, only until
// then.
func TestRestartAfterCrash(t *testing.T) {
	before := served(t, shared.port)
	shared.webhook.Kill()
	// The API server first finds that its open connections are gone.
	env.Eventually(t, soon, "a refused connection", func(ctx context.Context) error {
		err := shared.Client.Create(ctx, service("down"), client.DryRunAll)
		if err == nil {
			t.Fatal("a Service was admitted without webhooks")
		}
		if !strings.Contains(err.Error(), "connection refused") {
			return err
		}
		return nil
	})
	if err := shared.webhook.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if served(t, shared.port).Equal(before) {
		t.Error("the certificate is the old one")
	}
	env.Eventually(t, soon, "admission after the restart", func(ctx context.Context) error {
		return shared.Client.Create(ctx, service("up"), client.DryRunAll)
	})
}

func TestCertificateFromFiles(t *testing.T) {
	cert, key, authority := writeCertificate(t)
	port := install(t, "filed", map[string]any{"mode": "files"}, map[string]any{"caBundle": authority})
	start(t, "filed", port, "--cert-mode=files", "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	env.Eventually(t, soon, "a verdict", func(ctx context.Context) error {
		if err := shared.Client.Create(ctx, service("filed"), client.DryRunAll); err != nil {
			return err
		}
		err := shared.Client.Create(ctx, service("filed", builder.DLB("scheduler", "fastest")), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("got %v, want a rejection", err)
		}
		return nil
	})
}

// In the mode files, the webhooks do not repair an overwritten bundle. They report it but stay ready, and notice when it is
// correct again.
func TestOverwrittenBundleIsReported(t *testing.T) {
	const name = "overwritten"
	cert, key, right := writeCertificate(t)
	port := install(t, name, map[string]any{"mode": "files"}, map[string]any{"caBundle": right})
	process := start(t, name, port, "--cert-mode=files", "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	const metric = `quaymaster_webhook_trusted{configuration="validating"} `
	reported := func(value string, event string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := process.Ready(ctx); err != nil {
				return err
			}
			if !strings.Contains(process.Scrape(t), metric+value) {
				return errors.New("the metric has another value")
			}
			events := &corev1.EventList{}
			if err := shared.Client.List(ctx, events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.InvolvedObject.Name == name && e.InvolvedObject.Kind == "ValidatingWebhookConfiguration" && e.Reason == event {
					return nil
				}
			}
			return errors.New("no Event")
		}
	}
	wrong := string(authority.New(t, "Other", time.Now(), time.Now().Add(time.Hour)).PEM())
	if !strings.Contains(process.Scrape(t), metric+"1") {
		t.Error("the certificate is not trusted at start")
	}
	setBundle(t, name, wrong)
	env.Eventually(t, soon, "a report", reported("0", "CertificateNotTrusted"))
	if err := admitted(t.Context()); err == nil {
		t.Error("the API server still calls the webhooks")
	}
	setBundle(t, name, right)
	env.Eventually(t, soon, "the end of the problem", reported("1", "CertificateTrusted"))
	env.Eventually(t, soon, "admission", admitted)
}

// setBundle overwrites the bundles of a validating configuration.
func setBundle(t *testing.T, name, bundle string) {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Name: name}, config); err != nil {
		t.Fatal(err)
	}
	before := config.DeepCopy()
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.CABundle = []byte(bundle)
	}
	if err := shared.Client.Patch(t.Context(), config, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate writes a self-signed certificate for 127.0.0.1.
func writeCertificate(t *testing.T) (cert, key, authority string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	authority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, text := range map[string]string{cert: authority, key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, authority
}

// Requests that no API server sends are rejected with the right status by the running process and do not harm it.
func TestMalformedCalls(t *testing.T) {
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer insecure.CloseIdleConnections()
	base := env.WebhookURL(shared.port)
	tests := map[string]struct {
		path, contentType, body string
		status                  int
	}{
		"no JSON":      {"/validate-service", "application/json", "hello", http.StatusBadRequest},
		"no review":    {"/mutate-service", "application/json", "{}", http.StatusBadRequest},
		"content type": {"/validate-service", "text/plain", "{}", http.StatusUnsupportedMediaType},
		"too long":     {"/validate-service", "application/json", strings.Repeat(" ", 65<<20), http.StatusRequestEntityTooLarge},
		"deeply nested": {
			"/validate-service", "application/json", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), http.StatusBadRequest,
		},
		"other path": {"/", "application/json", "{}", http.StatusNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response, err := insecure.Post(base+test.path, test.contentType, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.status || strings.Count(string(text), "\n") != 1 {
				t.Errorf("got %d %q, want %d and one line", response.StatusCode, text, test.status)
			}
		})
	}
	if err := shared.Client.Create(t.Context(), service("after"), client.DryRunAll); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A replica is not ready, and reports why, while the configurations trust a different CA than the one that
// issued its certificate.
func TestNotReadyUntilTrusted(t *testing.T) {
	const name = "untrusted"
	cert, key, trusted := writeCertificate(t)
	now := time.Now()
	other := authority.New(t, "Example", now.Add(-time.Hour), now.Add(time.Hour))
	bundle := map[string]any{"caBundle": string(other.PEM())}
	port := install(t, name, map[string]any{"mode": "files"}, bundle)
	webhook := launch(t, name, port, "--cert-mode=files", "--tls-cert-file="+cert, "--tls-private-key-file="+key)
	webhook.eventually(t,
		`the caBundle of webhook "mutate.service.quaymaster.dev" does not verify the serving certificate: x509: certificate signed by unknown authority`)
	webhook.eventually(t, "[+]webhooks ok")
	webhook.eventually(t, "[-]certificate failed")
	one := &replica{webhook.Process, webhook.health + "/certificate"}
	one.eventually(t, `the caBundle of webhook "mutate.service.quaymaster.dev" does not verify`)
	(&replica{webhook.Process, webhook.health + "/policies"}).eventually(t, "ok")

	bundle["caBundle"] = trusted
	apply(t, name, port, map[string]any{"mode": "files"}, bundle)
	webhook.eventually(t, "ok")
	env.Eventually(t, soon, "admission", admitted)
}
