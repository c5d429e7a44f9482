package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	testingclock "k8s.io/utils/clock/testing"
)

func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "tls"}}
}

// replicas returns a function that creates replicas for one cluster with an empty Secret.
func replicas(t *testing.T) (func() *cluster, *fake.Clientset) {
	t.Helper()
	api := fake.NewClientset(append(ourConfigurations(nil), emptySecret())...)
	clock := testingclock.NewFakeClock(now)
	return func() *cluster { return newReplica(t, api, clock, "tls") }, api
}

func dataOf(t *testing.T, api *fake.Clientset) map[string][]byte {
	t.Helper()
	secret, err := api.CoreV1().Secrets(system).Get(t.Context(), "tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

func setData(t *testing.T, api *fake.Clientset, data map[string][]byte) {
	t.Helper()
	secret := emptySecret()
	secret.Data = data
	if err := api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), secret, system); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasShareOneCertificate(t *testing.T) {
	replica, api := replicas(t)
	first, second := replica(), replica()
	if _, err := first.GetCertificate(nil); err == nil ||
		err.Error() != "secret with self-signed certificates has not been read yet" {
		t.Errorf("got %v", err)
	}
	first.step(t.Context())
	second.step(t.Context())
	if !first.current(t).Leaf.Equal(second.current(t).Leaf) || !second.trusted(t, second.current(t)) {
		t.Error("the second replica has another certificate")
	}
	before := len(api.Actions())
	restarted := replica()
	restarted.step(t.Context())
	if !restarted.current(t).Leaf.Equal(first.current(t).Leaf) {
		t.Error("a restart changed the certificate")
	}
	for _, action := range api.Actions()[before:] {
		if action.GetVerb() != "get" {
			t.Errorf("unexpected write after a restart: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// overtaken is a store that another replica writes to just before this one.
type overtaken struct {
	store
	by func()
}

func (o *overtaken) save(ctx context.Context, s *state) error {
	if o.by == nil {
		return o.store.save(ctx, s)
	}
	o.by()
	o.by = nil
	return apierrors.NewConflict(corev1.Resource("secrets"), "tls", errors.New("the object has been modified"))
}

// If two replicas write at the same time, the slower one adopts the state of the other.
func TestSlowerReplicaYields(t *testing.T) {
	replica, _ := replicas(t)
	slow, fast := replica(), replica()
	slow.store = &overtaken{slow.store, func() { fast.step(t.Context()) }}
	slow.step(t.Context())
	if slow.problem != "" || !slow.current(t).Leaf.Equal(fast.current(t).Leaf) {
		t.Errorf("the slower replica has another certificate, problem %q", slow.problem)
	}
}

// A lost Secret is created again, with the same certificates if a replica still has them.
func TestSecretIsLost(t *testing.T) {
	replica, api := replicas(t)
	c := replica()
	c.step(t.Context())
	served := c.current(t).Leaf
	deleteSecret := func() {
		t.Helper()
		if err := api.CoreV1().Secrets(system).Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	deleteSecret()
	c.step(t.Context())
	if want := `get secret "tls": secrets "tls" not found`; c.problem != want {
		t.Errorf("got  %s\nwant %s", c.problem, want)
	}
	c.clock.Step(recreateAfter)
	c.step(t.Context())
	if c.problem != "" || !c.current(t).Leaf.Equal(served) || !c.trusted(t, c.current(t)) {
		t.Errorf("another certificate is served, or %s", c.problem)
	}
	restarted := replica()
	restarted.step(t.Context())
	if !restarted.current(t).Leaf.Equal(served) {
		t.Error("the certificate was not stored again")
	}

	deleteSecret()
	fresh := replica()
	fresh.step(t.Context())
	if _, err := fresh.GetCertificate(nil); err == nil || err.Error() != `get secret "tls": secrets "tls" not found` {
		t.Errorf("got %v", err)
	}
	fresh.clock.Step(recreateAfter)
	fresh.step(t.Context())
	c.step(t.Context())
	if !fresh.trusted(t, fresh.current(t)) || !c.trusted(t, c.current(t)) {
		t.Error("not all replicas are trusted after the Secret was lost without a copy")
	}
	if !c.current(t).Leaf.Equal(served) {
		t.Error("the running replica switched before API servers could see the new authority")
	}
}

// During an uninstallation, which deletes the configurations first, nothing is created.
func TestSecretIsDeletedByAnUninstallation(t *testing.T) {
	c := newReplica(t, fake.NewClientset(), testingclock.NewFakeClock(now), "tls")
	for range 3 {
		c.step(t.Context())
		c.clock.Step(recreateAfter)
	}
	if n := c.writes(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// Unusable content of the Secret is replaced by the state in use, or by a new one after a restart.
func TestSecretIsRepaired(t *testing.T) {
	other := mustAuthority(t, now, month)
	tests := map[string]struct {
		change func(data map[string][]byte)
		// fresh is true if the authority is lost, so that a restart creates a new one.
		fresh bool
	}{
		"emptied":                    {func(data map[string][]byte) { clear(data) }, true},
		"no authority":               {func(data map[string][]byte) { delete(data, authorityKey) }, true},
		"no key for the authority":   {func(data map[string][]byte) { delete(data, authorityPrivateKey) }, true},
		"text":                       {func(data map[string][]byte) { data[authorityKey] = []byte("hello") }, true},
		"another authority":          {func(data map[string][]byte) { data[authorityKey] = pemOf(other.cert) }, true},
		"a certificate as authority": {func(data map[string][]byte) { asAuthority(data) }, true},
		"no certificate":             {func(data map[string][]byte) { delete(data, corev1.TLSCertKey) }, false},
		"no key":                     {func(data map[string][]byte) { delete(data, corev1.TLSPrivateKeyKey) }, false},
		"the keys swapped": {func(data map[string][]byte) {
			data[corev1.TLSPrivateKeyKey] = data[authorityPrivateKey]
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			replica, api := replicas(t)
			c := replica()
			c.step(t.Context())
			served, authority := c.current(t).Leaf, c.signer
			good := dataOf(t, api)
			good["mine"] = []byte("stays")

			bad := maps.Clone(good)
			test.change(bad)
			setData(t, api, bad)
			c.step(t.Context())
			if !c.trusted(t, c.current(t)) || !c.signer.Equal(authority) {
				t.Error("the running replica did not keep its authority")
			}
			if test.fresh && !c.current(t).Leaf.Equal(served) {
				t.Error("the running replica did not keep its certificate")
			}
			if _, err := parseState(dataOf(t, api), now); err != nil {
				t.Errorf("the Secret was not repaired: %v", err)
			}

			setData(t, api, bad)
			fresh := replica()
			fresh.step(t.Context())
			if !fresh.trusted(t, fresh.current(t)) || fresh.signer.Equal(authority) == test.fresh {
				t.Errorf("new authority after a restart: %t, want %t", !fresh.signer.Equal(authority), test.fresh)
			}
			if got := string(dataOf(t, api)["mine"]); name != "emptied" && got != "stays" {
				t.Error("a foreign key was removed")
			}

			// The running replica never switches to what API servers may not have seen.
			c.step(t.Context())
			if test.fresh && !c.current(t).Leaf.Equal(served) {
				t.Error("the running replica switched immediately")
			}
			c.clock.Step(propagation)
			c.step(t.Context())
			if !c.current(t).Leaf.Equal(fresh.current(t).Leaf) || !c.trusted(t, c.current(t)) {
				t.Error("the replicas do not end up with the same certificate")
			}
		})
	}
}

// asAuthority stores the serving certificate as the authority.
func asAuthority(data map[string][]byte) {
	data[authorityKey], data[authorityPrivateKey] = data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
}

func TestStateEncoding(t *testing.T) {
	ca, former := mustAuthority(t, now, month), mustAuthority(t, now.Add(-day), month)
	want := &state{
		authority: ca, former: parseBundle(pemOf(former.cert)), serving: mustSign(t, former, now, day, "localhost"),
	}
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseState(data, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(data, again); diff != "" {
		t.Errorf("encoded twice (-first +second):\n%s", diff)
	}
	if !got.signer().Equal(former.cert) {
		t.Error("wrong signer")
	}
}

func TestParsePair(t *testing.T) {
	pair := mustIssue(t, now, day, "localhost")
	stranger := mustIssue(t, now, day, "localhost")
	key := func(cert *tls.Certificate) []byte {
		text, err := encodeKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	certPEM, keyPEM := pemOf(pair.serving.Leaf), key(pair.serving)
	tests := map[string]struct {
		cert, key, authority []byte
		at                   time.Time
		want                 string
	}{
		"good":              {certPEM, keyPEM, pemOf(pair.authority), now, ""},
		"without authority": {certPEM, keyPEM, nil, now, ""},
		"a clock behind":    {certPEM, keyPEM, pemOf(pair.authority), now.Add(-time.Hour), ""},
		"empty":             {nil, nil, nil, now, "it has no tls.crt"},
		"no key":            {certPEM, nil, nil, now, "it has no tls.key"},
		"another key": {
			certPEM, key(stranger.serving), nil, now, "tls.crt with tls.key: tls: private key does not match public key",
		},
		"text": {
			[]byte("hello"), keyPEM, nil, now, "tls.crt with tls.key: tls: failed to find any PEM data in certificate input",
		},
		"expired": {certPEM, keyPEM, nil, now.Add(2 * day), "tls.crt expired at 2026-05-05T12:00:00Z"},
		"another authority": {
			certPEM, keyPEM, pemOf(stranger.authority), now,
			"ca.crt does not verify tls.crt: x509: certificate signed by unknown authority",
		},
		"broken chain": {
			slices.Concat(certPEM, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")), keyPEM, nil, now,
			"tls.crt: x509: malformed certificate",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parsePair(map[string][]byte{"tls.crt": test.cert, "tls.key": test.key, "ca.crt": test.authority}, test.at)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
