package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

// requested holds the objects that the webhooks of the installation "managed" apply, in that order.
var requested = []struct{ kind, name, spec string }{
	{"Issuer", "managed-webhook-selfsigned", `selfSigned: {}`},
	{"Certificate", "managed-webhook-ca", `
commonName: quaymaster.dev webhook authority
duration: 87600h0m0s
isCA: true
issuerRef: {group: cert-manager.io, kind: Issuer, name: managed-webhook-selfsigned}
privateKey: {algorithm: ECDSA, rotationPolicy: Never, size: 256}
secretName: managed-webhook-ca
usages: [cert sign]`},
	{"Issuer", "managed-webhook-ca", `ca: {secretName: managed-webhook-ca}`},
	{"Certificate", "managed-webhook", `
duration: 2160h0m0s
dnsNames: [managed-webhook.quaymaster-system.svc]
issuerRef: {group: cert-manager.io, kind: Issuer, name: managed-webhook-ca}
privateKey: {algorithm: ECDSA, rotationPolicy: Always, size: 256}
renewBefore: 720h0m0s
secretName: managed-webhook-tls
usages: [digital signature, server auth]`},
}

// read returns one of the requested objects.
func read(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind})
	return object, shared.Client.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: name}, object)
}

// replica is a webhook process that may not be ready.
type replica struct {
	*process.Process
	health string
}

// launch starts a replica without waiting until it is ready.
func launch(t *testing.T, name string, port int, args ...string) *replica {
	t.Helper()
	path, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	health, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(health)
	args = append(account(t, name), args...)
	p, err := shared.Start(fmt.Sprintf("%s-%d", name, port), path, append([]string{
		"webhook", "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--health-probe-bind-address=" + address,
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return &replica{p, "http://" + address + "/readyz"}
}

// readiness returns the response of a readiness check, or of all checks if the name is empty.
func (r *replica) readiness(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.health, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// eventually waits until the answer about readiness contains a text, or is ok.
func (r *replica) eventually(t *testing.T, want string) {
	t.Helper()
	env.Eventually(t, soon, "readiness: "+want, func(ctx context.Context) error {
		got, err := r.readiness(ctx)
		if err == nil && got != want && (want == "ok" || !strings.Contains(got, want)) {
			err = errors.New(got)
		}
		return err
	})
}

// cert-manager is installed after the webhooks, and then before them. The test writes the Secret in its place.
func TestCertManagerInEitherOrder(t *testing.T) {
	const name, secret = "managed", "managed-webhook-tls"
	now := time.Now()
	ca := authority.New(t, "Example", now.Add(-time.Hour), now.Add(time.Hour))
	issue := func() (*authority.Pair, map[string][]byte) {
		pair := ca.Serving(t, now.Add(-time.Hour), now.Add(time.Hour))
		return pair, map[string][]byte{"tls.crt": pair.PEM(), "tls.key": pair.KeyPEM(t), "ca.crt": ca.PEM()}
	}
	port := install(t, name, map[string]any{"mode": "cert-manager"}, map[string]any{"caBundle": string(ca.PEM())})
	args := []string{
		"--cert-mode=cert-manager", "--namespace=" + env.Namespace, "--cert-secret=" + secret,
	}
	declared, err := env.CertManagerObjects(env.Values{"fullnameOverride": name})
	if err != nil || len(declared) != len(requested) {
		t.Fatalf("the chart declares %d objects, want %d: %v", len(declared), len(requested), err)
	}
	args = append(args, declared...)
	webhook := launch(t, name, port, args...)
	webhook.eventually(t,
		"waiting for cert-manager: cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed")

	if err := shared.InstallCertManagerCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	webhook.eventually(t,
		`waiting for cert-manager: issuer "managed-webhook-selfsigned" has no status yet; check that cert-manager's controller is running`)
	versions := map[string]string{}
	for _, want := range requested {
		object, err := read(t.Context(), want.kind, want.name)
		if err != nil {
			t.Fatal(err)
		}
		versions[want.kind+want.name] = object.GetResourceVersion()
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(want.spec), &spec); err != nil {
			t.Fatal(err)
		}
		spec = normal(t, spec)
		if diff := cmp.Diff(spec, normal(t, object.Object["spec"].(map[string]any))); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", want.kind, want.name, diff)
		}
	}

	first, data := issue()
	putSecret(t, secret, data)
	webhook.eventually(t, "ok")
	if !served(t, port).Equal(first.Cert) {
		t.Error("another certificate is served")
	}
	env.Eventually(t, soon, "admission", admitted)

	created := load(t)
	second, data := issue()
	putSecret(t, secret, data)
	env.Eventually(t, soon, "the new certificate", func(context.Context) error {
		if !served(t, port).Equal(second.Cert) {
			return errors.New("it is the old one")
		}
		return nil
	})
	_, mixed := issue()
	mixed["tls.key"] = data["tls.key"]
	putSecret(t, secret, mixed)
	atChange := created.Load()
	env.Eventually(t, soon, "requests after the changes", func(context.Context) error {
		if n := created.Load() - atChange; n < 100 && !t.Failed() {
			return fmt.Errorf("only %d", n)
		}
		return nil
	})
	if !served(t, port).Equal(second.Cert) {
		t.Error("a certificate without its key replaced a valid one")
	}
	putSecret(t, secret, data)
	t.Run("applied again", func(t *testing.T) { appliedAgain(t, name, args, versions) })
}

// appliedAgain starts another replica after the last two of the objects were damaged: it restores these and leaves the
// others.
func appliedAgain(t *testing.T, name string, args []string, versions map[string]string) {
	issuer, err := read(t.Context(), requested[2].kind, requested[2].name)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Client.Delete(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	serving, err := read(t.Context(), requested[3].kind, requested[3].name)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"duration":"24h"}}`))
	if err := shared.Client.Patch(t.Context(), serving, patch); err != nil {
		t.Fatal(err)
	}
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	launch(t, name, port, args...).eventually(t, "ok")
	env.Eventually(t, soon, "the objects as they should be", func(ctx context.Context) error {
		object, err := read(ctx, requested[3].kind, requested[3].name)
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(object.Object, "spec", "duration"); got != "2160h0m0s" {
			return fmt.Errorf("the certificate lasts %s", got)
		}
		return nil
	})
	for i, want := range requested[:3] {
		object, err := read(t.Context(), want.kind, want.name)
		if err != nil {
			t.Errorf("%s %s: %v", want.kind, want.name, err)
		} else if same := object.GetResourceVersion() == versions[want.kind+want.name]; same != (i < 2) {
			t.Errorf("%s %s: its resourceVersion is the same: %t", want.kind, want.name, same)
		}
	}
}

// normal converts a value to the form that JSON decodes to, so that numbers compare.
func normal(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
