package certs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

var request = Request{Prefix: "qm", Secret: "qm-tls", Hosts: []string{"qm.system.svc", "10.0.0.1"}}

// objectsYAML returns the objects of a request as YAML.
func objectsYAML(t *testing.T, r Request) string {
	t.Helper()
	var all []string
	for _, object := range r.objects() {
		text, err := yaml.Marshal(object.spec)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, "# "+object.String()+"\n"+string(text))
	}
	return strings.Join(all, "")
}

func TestRequestObjects(t *testing.T) {
	const authority = `# issuer "qm-selfsigned"
selfSigned: {}
# certificate "qm-ca"
commonName: quaymaster.dev webhook authority
duration: 87600h0m0s
isCA: true
issuerRef:
  group: cert-manager.io
  kind: Issuer
  name: qm-selfsigned
privateKey:
  algorithm: ECDSA
  rotationPolicy: Never
  size: 256
secretName: qm-ca
usages:
- cert sign
# issuer "qm-ca"
ca:
  secretName: qm-ca
`
	const serving = `# certificate "qm"
dnsNames:
- qm.system.svc
duration: 2160h0m0s
ipAddresses:
- 10.0.0.1
issuerRef:
  group: %s
  kind: %s
  name: %s
privateKey:
  algorithm: ECDSA
  rotationPolicy: Always
  size: 256
renewBefore: 720h0m0s
secretName: qm-tls
usages:
- digital signature
- server auth
`
	tests := map[string]struct{ issuer, want string }{
		"own authority":  {"", authority + fmt.Sprintf(serving, "cert-manager.io", "Issuer", "qm-ca")},
		"cluster issuer": {"ClusterIssuer/internal", fmt.Sprintf(serving, "cert-manager.io", "ClusterIssuer", "internal")},
		"foreign group": {
			"pki.example.com/Authority/internal", fmt.Sprintf(serving, "pki.example.com", "Authority", "internal"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := request
			if test.issuer != "" {
				var err error
				if r.Issuer, err = ParseIssuerRef(test.issuer); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, objectsYAML(t, r)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseIssuerRefErrors(t *testing.T) {
	for _, text := range []string{"internal", "/internal", "ClusterIssuer/", "a/b/c/d", "//"} {
		want := fmt.Sprintf("must be kind/name or group/kind/name, such as ClusterIssuer/internal; got %q", text)
		if _, err := ParseIssuerRef(text); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// newCertManager returns a CertManager with the handler as its API server.
func newCertManager(t *testing.T, handler http.HandlerFunc) *CertManager {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	api, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return NewCertManager(CertManagerOptions{
		Request: request, Managed: true, API: api, Namespace: system, Clock: testingclock.NewFakeClock(now),
	})
}

// The error of GetCertificate, which readiness shows, names what is missing.
func TestCertManagerNamesWhatIsMissing(t *testing.T) {
	status := func(code int, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
				Message: message,
			})
		}
	}
	ready := func(condition string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conditions := `{"type":"Ready","status":"True"}`
			if strings.HasSuffix(r.URL.Path, "/certificates/qm-ca") {
				conditions = condition
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion":"cert-manager.io/v1","kind":"Object","status":{"conditions":[%s]}}`, conditions)
		}
	}
	tests := map[string]struct {
		server http.HandlerFunc
		want   string
	}{
		"not installed": {
			http.NotFound, "cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed",
		},
		"its webhook does not respond": {
			status(http.StatusInternalServerError, `failed calling webhook "webhook.cert-manager.io": connection refused`),
			`apply issuer "qm-selfsigned": failed calling webhook "webhook.cert-manager.io": connection refused`,
		},
		"no namespace": {
			status(http.StatusNotFound, `namespaces "x" not found`), `apply issuer "qm-selfsigned": namespaces "x" not found`,
		},
		"no rights": {
			status(http.StatusForbidden, `issuers.cert-manager.io "qm-selfsigned" is forbidden`),
			`apply issuer "qm-selfsigned": issuers.cert-manager.io "qm-selfsigned" is forbidden`,
		},
		"no controller": {
			ready(""), `certificate "qm-ca" has no status yet; check that cert-manager's controller is running`,
		},
		"not issued": {
			ready(
				`{"type":"Issuing","status":"True"},{"type":"Ready","status":"False","reason":"DoesNotExist","message":"Issuing"}`,
			),
			`certificate "qm-ca" is not ready: DoesNotExist: Issuing`,
		},
		"ready": {ready(`{"type":"Ready","status":"True"}`), `secret "qm-tls": it has not been read yet`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCertManager(t, test.server)
			_, reason := c.apply(t.Context())
			c.setWaiting(t.Context(), reason)
			if _, err := c.GetCertificate(nil); err == nil || err.Error() != "waiting for cert-manager: "+test.want {
				t.Errorf("got  %v\nwant waiting for cert-manager: %s", err, test.want)
			}
		})
	}
}

// secretOf returns the Secret that cert-manager writes for a certificate.
func secretOf(t *testing.T, pair *issued) *corev1.Secret {
	t.Helper()
	key, err := keyutil.MarshalPrivateKeyToPEM(pair.serving.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: request.Secret},
		Data: map[string][]byte{
			corev1.TLSCertKey: pemOf(pair.serving.Leaf), corev1.TLSPrivateKeyKey: key, authorityKey: pemOf(pair.authority),
		},
	}
}

// An unusable certificate does not replace the served one.
func TestCertManagerServesTheSecret(t *testing.T) {
	c := newCertManager(t, http.NotFound)
	first, second := mustIssue(t, now, day, "localhost"), mustIssue(t, now, day, "localhost")
	mixed := secretOf(t, second)
	mixed.Data[corev1.TLSCertKey] = pemOf(first.serving.Leaf)
	steps := []struct {
		secret *corev1.Secret
		served *issued
		want   string
	}{
		{
			nil, nil,
			`waiting for cert-manager: secret "qm-tls": it does not exist; a Certificate of cert-manager must create it`,
		},
		{emptySecret(), nil, `waiting for cert-manager: secret "qm-tls": it has no tls.crt`},
		{secretOf(t, first), first, ""},
		{mixed, first, ""},
		{nil, first, ""},
		{secretOf(t, mustIssue(t, now.Add(-2*day), day, "localhost")), first, ""},
		{secretOf(t, second), second, ""},
	}
	for i, step := range steps {
		var read *unstructured.Unstructured
		if step.secret != nil {
			read = unstructuredOf(t, step.secret)
		}
		c.load(t.Context(), read)
		cert, err := c.GetCertificate(nil)
		switch {
		case step.served == nil && (err == nil || err.Error() != step.want):
			t.Errorf("step %d: got %v, want %s", i, err, step.want)
		case step.served != nil && (err != nil || !cert.Leaf.Equal(step.served.serving.Leaf)):
			t.Errorf("step %d: wrong certificate is served, error %v", i, err)
		}
	}
}
