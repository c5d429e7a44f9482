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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/keyutil"
	testingclock "k8s.io/utils/clock/testing"
)

func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "tls"}}
}

// replicas returns a function that creates replicas for one cluster with an empty Secret.
func replicas(t *testing.T) (func() *cluster, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	api := newAPI(append(ourConfigurations(nil), emptySecret())...)
	clock := testingclock.NewFakeClock(now)
	return func() *cluster { return newReplica(t, api, clock, "tls") }, api
}

func dataOf(t *testing.T, api *dynamicfake.FakeDynamicClient) map[string][]byte {
	t.Helper()
	secret, err := api.Resource(secretsResource).Namespace(system).Get(t.Context(), "tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read, err := typed[corev1.Secret](secret)
	if err != nil {
		t.Fatal(err)
	}
	return read.Data
}

func setData(t *testing.T, api *dynamicfake.FakeDynamicClient, data map[string][]byte) {
	t.Helper()
	secret := emptySecret()
	secret.Data = data
	put(t, api, secretsResource, secret)
}

// mustEncode returns the data of the Secret with an authority.
func mustEncode(t *testing.T, a *tls.Certificate) map[string][]byte {
	t.Helper()
	data, err := encodeAuthority(a)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReplicasShareOneAuthority(t *testing.T) {
	replica, api := replicas(t)
	first, second := replica(), replica()
	if _, err := first.GetCertificate(nil); err == nil ||
		err.Error() != "secret with the self-signed authority has not been read yet" {
		t.Errorf("got %v", err)
	}
	first.step(t.Context())
	before := len(api.Actions())
	second.step(t.Context())
	restarted := replica()
	restarted.step(t.Context())
	for _, c := range []*cluster{second, restarted} {
		if c.current(t).Leaf.CheckSignatureFrom(first.signer.Leaf) != nil || !c.trusted(t, c.current(t)) {
			t.Error("a replica has a different CA")
		}
	}
	for _, action := range api.Actions()[before:] {
		if action.GetVerb() != "get" {
			t.Errorf("unexpected write of another replica: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// overtaken is an API to which another replica writes just before this one.
type overtaken struct {
	dynamic.ResourceInterface
	by func()
}

func (o *overtaken) Update(
	ctx context.Context, secret *unstructured.Unstructured, options metav1.UpdateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if o.by == nil {
		return o.ResourceInterface.Update(ctx, secret, options)
	}
	o.by()
	o.by = nil
	return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.GetName(), errors.New("the object has been modified"))
}

// If two replicas write at the same time, the slower one adopts the authority of the other.
func TestSlowerReplicaYields(t *testing.T) {
	replica, _ := replicas(t)
	slow, fast := replica(), replica()
	slow.secrets = &overtaken{slow.secrets, func() { fast.step(t.Context()) }}
	slow.step(t.Context())
	if slow.problem.String() != "" || !slow.authority.Leaf.Equal(fast.authority.Leaf) {
		t.Errorf("the slower replica has a different CA, problem %q", slow.problem.String())
	}
}

// Only the version of the Secret that was read is written: the API server rejects it otherwise.
func TestSecretIsWrittenInTheVersionRead(t *testing.T) {
	c := newReplica(t, newAPI(append(ourConfigurations(nil), emptySecret())...), testingclock.NewFakeClock(now), "tls")
	secret := emptySecret()
	secret.ResourceVersion = "42"
	put(t, c.api, secretsResource, secret)
	c.step(t.Context())
	for _, action := range c.api.Actions() {
		update, ok := action.(k8stesting.UpdateAction)
		if ok && update.GetObject().(*unstructured.Unstructured).GetResourceVersion() != "42" {
			t.Errorf("the update is %v", update.GetObject())
		}
	}
}

// Replicas with different authorities, as those in memory, do not keep overwriting each other's bundle.
func TestReplicasDoNotCompete(t *testing.T) {
	first := newCluster(t, ourConfigurations(nil)...)
	second := newReplica(t, first.api, first.clock, "")
	for range 2 {
		first.step(t.Context())
		second.step(t.Context())
	}
	before := first.writes()
	for range 100 {
		first.clock.Step(keepPrevious / 200)
		first.step(t.Context())
		second.step(t.Context())
	}
	if n := first.writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	if !first.trusted(t, first.current(t)) || !second.trusted(t, second.current(t)) {
		t.Error("not both replicas are trusted")
	}
}

// Without the Secret, running replicas serve and renew their certificate, and new ones report what to do. When it is
// there again, without data, all get a new authority, and none is ever distrusted.
func TestSecretIsLost(t *testing.T) {
	const lost = `secret "tls" does not exist; create it again with helm upgrade`
	replica, api := replicas(t)
	c := replica()
	c.step(t.Context())
	served := c.current(t).Leaf
	if err := api.Resource(secretsResource).Namespace(system).Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := c.writes()
	fresh := replica()
	fresh.step(t.Context())
	if _, err := fresh.GetCertificate(nil); err == nil || err.Error() != lost {
		t.Errorf("got %v", err)
	}
	c.clock.Step(month)
	c.step(t.Context())
	if c.problem.String() != lost || c.current(t).Leaf.Equal(served) || !c.trusted(t, c.current(t)) {
		t.Errorf("the certificate was not renewed, problem %q", c.problem.String())
	}
	if n := c.writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}

	if err := api.Tracker().Add(unstructuredOf(t, emptySecret())); err != nil {
		t.Fatal(err)
	}
	fresh.step(t.Context())
	c.step(t.Context())
	for range 2 {
		if !fresh.trusted(t, fresh.current(t)) || !c.trusted(t, c.current(t)) {
			t.Error("not all replicas are trusted after the Secret was created again")
		}
		c.clock.Step(propagation)
		c.step(t.Context())
	}
	if c.problem.String() != "" || !c.signer.Leaf.Equal(fresh.signer.Leaf) {
		t.Errorf("the replicas have different authorities, problem %q", c.problem.String())
	}
}

// Unusable content of the Secret is replaced by a new authority, which running replicas do not use before API servers
// could see it. Other content stays.
func TestSecretIsRepaired(t *testing.T) {
	other := mustAuthority(t, now, month)
	leaf := mustSign(t, other, now, month, "localhost")
	tests := map[string]func(data map[string][]byte){
		"no authority":             func(data map[string][]byte) { delete(data, authorityKey) },
		"no key for the authority": func(data map[string][]byte) { delete(data, authorityPrivateKey) },
		"text":                     func(data map[string][]byte) { data[authorityKey] = []byte("hello") },
		"different CA":             func(data map[string][]byte) { data[authorityKey] = pemOf(other.Leaf) },
		"a certificate as authority": func(data map[string][]byte) {
			maps.Copy(data, mustEncode(t, leaf))
		},
		"due for renewal": func(data map[string][]byte) {
			maps.Copy(data, mustEncode(t, mustAuthority(t, now.Add(-month*2/3), month)))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			replica, api := replicas(t)
			c := replica()
			c.step(t.Context())
			served := c.current(t).Leaf
			bad := dataOf(t, api)
			bad["mine"] = []byte("stays")
			change(bad)
			setData(t, api, bad)

			c.step(t.Context())
			if !c.trusted(t, c.current(t)) || !c.current(t).Leaf.Equal(served) {
				t.Error("the running replica did not keep its certificate")
			}
			repaired := dataOf(t, api)
			if _, err := parseAuthority(repaired, now); err != nil || string(repaired["mine"]) != "stays" {
				t.Errorf("the Secret was not repaired, or a foreign key was removed: %v", err)
			}
			fresh := replica()
			fresh.step(t.Context())
			c.clock.Step(propagation)
			c.step(t.Context())
			if !c.signer.Leaf.Equal(fresh.signer.Leaf) || !c.trusted(t, c.current(t)) || !fresh.trusted(t, fresh.current(t)) {
				t.Error("the replicas do not end up with the same authority")
			}
		})
	}
}

func TestAuthorityEncoding(t *testing.T) {
	want := mustAuthority(t, now, month)
	got, err := parseAuthority(mustEncode(t, want), now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mustEncode(t, want), mustEncode(t, got)); diff != "" {
		t.Errorf("encoded twice (-first +second):\n%s", diff)
	}
}

func TestParsePair(t *testing.T) {
	pair := mustIssue(t, now, day, "localhost")
	stranger := mustIssue(t, now, day, "localhost")
	key := func(cert *tls.Certificate) []byte {
		text, err := keyutil.MarshalPrivateKeyToPEM(cert.PrivateKey)
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
		"different CA": {
			certPEM, keyPEM, pemOf(stranger.authority), now,
			"ca.crt does not verify tls.crt: x509: certificate signed by unknown authority",
		},
		"no CA": {certPEM, keyPEM, []byte("hello"), now, "ca.crt contains no valid certificate"},
		"another CA is malformed": {
			certPEM, keyPEM, slices.Concat([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), pemOf(pair.authority)), now, "",
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
