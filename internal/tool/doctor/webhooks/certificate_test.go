package webhooks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/installation"
)

// checks returns the checks of a release in a cluster, whose pods run with the arguments.
func checks(cluster kubernetes.Interface, args ...string) *Checks {
	return &Checks{Release: installation.New(cluster, args...)}
}

// configuration returns a ValidatingWebhookConfiguration with the webhook for Services.
func configuration(
	client admissionregistrationv1.WebhookClientConfig,
) []admissionregistrationv1.ValidatingWebhookConfiguration {
	return []admissionregistrationv1.ValidatingWebhookConfiguration{{
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: validateService, ClientConfig: client}},
	}}
}

func service(name string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "quay", Name: name},
	}
}

// authority is a CA that signs certificates for the webhooks' Service.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, until time.Time) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, NotAfter: until})
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	template.NotBefore = installation.Noon.Add(-365 * 24 * time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// serving returns the content of a Secret with a serving certificate.
func (a *authority) serving(host string, until time.Time) map[string][]byte {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{DNSNames: []string{host}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return map[string][]byte{corev1.TLSCertKey: toPEM(cert), corev1.TLSPrivateKeyKey: a.keyPEM(key)}
}

// shared returns the content of a Secret with the CA, which self-signed webhooks share.
func (a *authority) shared() map[string][]byte {
	a.t.Helper()
	return map[string][]byte{"ca.crt": toPEM(a.cert), "ca.key": a.keyPEM(a.key)}
}

func (a *authority) keyPEM(key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func toPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

const day = 24 * time.Hour

func TestAuthority(t *testing.T) {
	long, short, ended := newAuthority(t, installation.Noon.Add(90*day)), newAuthority(t, installation.Noon.Add(day)), newAuthority(t,
		installation.Noon.Add(-day))
	for name, tc := range map[string]struct {
		bundle []byte
		level  doctor.Level
		found  string
	}{
		"valid":   {toPEM(long.cert), doctor.OK, "valid until 2026-05-30T12:00:00Z"},
		"rotated": {append(toPEM(ended.cert), toPEM(long.cert)...), doctor.OK, "valid until 2026-05-30T12:00:00Z"},
		"expires soon": {
			toPEM(short.cert), doctor.Warn, "the CA expires at 2026-03-02T12:00:00Z and should have been renewed",
		},
		"expired": {
			toPEM(ended.cert), doctor.Fail,
			"caBundle of webhook validate.service.quaymaster.dev contains no valid certificate, the first expires at " +
				"2026-02-28T12:00:00Z",
		},
		"none": {
			nil, doctor.Fail, "webhooks without a caBundle, for which API servers trust only public CAs: validate.service.quaymaster.dev",
		},
		"no PEM": {
			[]byte("hello"), doctor.Fail, "caBundle of webhook validate.service.quaymaster.dev: contains no PEM certificate",
		},
		"broken PEM": {
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), doctor.Fail,
			"caBundle of webhook validate.service.quaymaster.dev: parse certificate: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(), "--cert-mode=cert-manager")
			client := service("quay-webhook")
			client.CABundle = tc.bundle
			c.Validating = configuration(client)
			if got := c.Authority(t.Context()); got.Level != tc.level || !strings.HasPrefix(got.Found, tc.found) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

func TestCertificate(t *testing.T) {
	trusted, other := newAuthority(t, installation.Noon.Add(900*day)), newAuthority(t, installation.Noon.Add(900*day))
	const host = "quay-webhook.quay.svc"
	secret := func(data map[string][]byte) []runtime.Object {
		return []runtime.Object{&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-tls"}, Data: data,
		}}
	}
	withKey := func(key []byte) map[string][]byte {
		data := trusted.serving(host, installation.Noon.Add(90*day))
		data[corev1.TLSPrivateKeyKey] = key
		return data
	}
	for name, tc := range map[string]struct {
		cluster []runtime.Object
		mode    string
		level   doctor.Level
		found   string
	}{
		"valid": {
			secret(trusted.serving(host, installation.Noon.Add(90*day))), "cert-manager", doctor.OK,
			"trusted, valid until 2026-05-30T12:00:00Z",
		},
		"expires soon": {
			secret(trusted.serving(host, installation.Noon.Add(day))), "cert-manager", doctor.Warn,
			"the certificate expires at 2026-03-02T12:00:00Z and should have been renewed",
		},
		"expired": {
			secret(trusted.serving(host, installation.Noon.Add(-day))), "cert-manager", doctor.Fail,
			"the certificate expired at 2026-02-28T12:00:00Z, so API servers reject it",
		},
		"different CA": {
			secret(other.serving(host, installation.Noon.Add(90*day))), "cert-manager", doctor.Fail,
			"API servers do not trust the certificate: the caBundle of webhook \"validate.service.quaymaster.dev\" does not " +
				"verify the serving certificate: x509: certificate signed by unknown authority",
		},
		"another host": {
			secret(trusted.serving("localhost", installation.Noon.Add(90*day))), "cert-manager", doctor.Fail,
			"API servers do not trust the certificate: the caBundle of webhook \"validate.service.quaymaster.dev\" does not " +
				"verify the serving certificate: x509: certificate is valid for localhost",
		},
		"no Secret": {
			nil, "cert-manager", doctor.Fail, "Secret quay-tls is missing: webhooks that start have no certificate",
		},
		"another key": {
			secret(withKey(other.serving(host, installation.Noon.Add(90*day))[corev1.TLSPrivateKeyKey])), "cert-manager", doctor.Fail,
			"tls.key in Secret quay-tls is not the key of tls.crt, so webhooks cannot use it: tls: private key does not " +
				"match public key",
		},
		"no key": {
			secret(withKey(nil)), "cert-manager", doctor.Fail,
			"tls.key in Secret quay-tls is not the key of tls.crt, so webhooks cannot use it: tls: failed to find any PEM",
		},
		"empty": {
			secret(nil), "cert-manager", doctor.Fail, "tls.crt in Secret quay-tls: contains no PEM certificate",
		},
		"self-signed": {secret(trusted.shared()), "self-signed", doctor.OK, "trusted, valid until 2028-08-17T12:00:00Z"},
		"self-signed, expired": {
			secret(newAuthority(t, installation.Noon.Add(-day)).shared()), "self-signed", doctor.Fail,
			"the certificate expired at 2026-02-28T12:00:00Z, so API servers reject it",
		},
		"self-signed, not in the bundle": {
			secret(other.shared()), "self-signed", doctor.Fail,
			"API servers do not trust the certificate: the caBundle of webhook \"validate.service.quaymaster.dev\" does not " +
				"contain the CA",
		},
		"self-signed, another key": {
			secret(map[string][]byte{"ca.crt": toPEM(trusted.cert), "ca.key": other.shared()["ca.key"]}), "self-signed", doctor.Fail,
			"ca.key in Secret quay-tls is not the key of ca.crt, so webhooks cannot use it: tls: private key does not",
		},
		"self-signed, empty": {
			secret(nil), "self-signed", doctor.Fail, "ca.crt in Secret quay-tls: contains no PEM certificate",
		},
		"self-signed, no Secret": {
			nil, "self-signed", doctor.Fail, "Secret quay-tls is missing: webhooks that start have no certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(tc.cluster...), "--cert-mode="+tc.mode, "--cert-secret=quay-tls")
			client := service("quay-webhook")
			client.CABundle = toPEM(trusted.cert)
			c.Validating = configuration(client)
			if got := c.Certificate(t.Context()); got.Level != tc.level || !strings.HasPrefix(got.Found, tc.found) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

// One overwritten bundle is found, whichever webhook it belongs to.
func TestCertificateOfEveryWebhook(t *testing.T) {
	trusted, other := newAuthority(t, installation.Noon.Add(900*day)), newAuthority(t, installation.Noon.Add(900*day))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-tls"},
		Data:       trusted.serving("quay-webhook.quay.svc", installation.Noon.Add(90*day)),
	}
	c := checks(fake.NewClientset(secret), "--cert-mode=cert-manager", "--cert-secret=quay-tls",
		`--cert-manager-object={"kind":"Certificate","metadata":{"name":"ca"},"spec":{"secretName":"ca"}}`,
		`--cert-manager-object={"kind":"Certificate","metadata":{"name":"serving"},"spec":{"secretName":"quay-tls"}}`)
	client := service("quay-webhook")
	client.CABundle = toPEM(trusted.cert)
	c.Validating = configuration(client)
	client.CABundle = toPEM(other.cert)
	c.Mutating = []admissionregistrationv1.MutatingWebhookConfiguration{{
		Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: mutateService, ClientConfig: client}},
	}}
	got := c.Certificate(t.Context())
	if got.Level != doctor.Fail || !strings.Contains(got.Found, `caBundle of webhook "mutate.service.quaymaster.dev"`) ||
		!strings.Contains(got.Remedy, "cmctl renew --namespace quay serving") {
		t.Errorf("got %+v", got)
	}
}

// A caBundle that cainjector was never asked to write is the chart's matter, not that of cert-manager.
func TestAuthorityWithoutInjection(t *testing.T) {
	c := checks(fake.NewClientset(), "--cert-mode=cert-manager")
	for annotation, want := range map[string]string{annotationInject: "its cainjector writes", "other": "with helm upgrade"} {
		c.Validating = configuration(service("quay-webhook"))
		c.Validating[0].Annotations = map[string]string{annotation: "quay/quaymaster-webhook-ca"}
		if got := c.Authority(t.Context()); got.Level != doctor.Fail || !strings.Contains(got.Remedy, want) {
			t.Errorf("%s: got %+v", annotation, got)
		}
	}
}
