package certs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	testingclock "k8s.io/utils/clock/testing"
)

// declared are the objects of a CertManager.
var declared = []string{
	`{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"namespace":"quaymaster-system","name":"qm-selfsigned"},"spec":{"selfSigned":{}}}`,
	`{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"namespace":"quaymaster-system","name":"qm-ca"},"spec":{"isCA":true}}`,
	`{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"namespace":"quaymaster-system","name":"qm"}}`,
}

const tlsSecret = "qm-tls"

func TestParseObjectErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":   "must be an Issuer or Certificate in JSON: ",
		"{}": "must be an Issuer or Certificate in JSON: Object 'Kind' is missing in '{}'",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"quaymaster-system","name":"qm"}}`: "must be an Issuer or Certificate of " +
			"cert-manager.io/v1; got /v1, Kind=Secret",
		`{"apiVersion":"cert-manager.io/v1","kind":"ClusterIssuer","metadata":{"name":"qm"}}`: "must be an Issuer or Certificate of " +
			"cert-manager.io/v1; got cert-manager.io/v1, Kind=ClusterIssuer",
		`{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"namespace":"quaymaster-system"}}`: `must have a name and the namespace ` +
			`"quaymaster-system"; got name "" and namespace "quaymaster-system"`,
		`{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"namespace":"other","name":"qm"}}`: `must have a name and the ` +
			`namespace "quaymaster-system"; got name "qm" and namespace "other"`,
	} {
		if _, err := ParseObject(text, system); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got  %v\nwant %s", text, err, want)
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
	var objects []*unstructured.Unstructured
	for _, text := range declared {
		object, err := ParseObject(text, system)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return NewCertManager(CertManagerOptions{
		Objects: objects, Secret: tlsSecret, API: api, Namespace: system, Clock: testingclock.NewFakeClock(now),
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
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: tlsSecret},
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
