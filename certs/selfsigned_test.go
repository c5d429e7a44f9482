package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	webhookURL = "https://127.0.0.1:9443/validate-service"
	month      = 30 * day
	system     = "quaymaster-system"
)

func ourConfigurations(bundle []byte) []runtime.Object {
	url := webhookURL
	config := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle}
	return []runtime.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "quaymaster"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "mutate.service.quaymaster.dev", ClientConfig: config}},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "quaymaster"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "validate.service.quaymaster.dev", ClientConfig: config},
				{Name: "another.quaymaster.dev", ClientConfig: config},
			},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "other"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "validate.example.com", ClientConfig: config}},
		},
	}
}

func newAPI(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...)
}

// unstructuredOf returns an object as dynamic clients do.
func unstructuredOf(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	converted := &unstructured.Unstructured{Object: content}
	converted.SetGroupVersionKind(kinds[0])
	return converted
}

// put replaces an object, as another client would.
func put(t *testing.T, api *dynamicfake.FakeDynamicClient, resource schema.GroupVersionResource, object runtime.Object) {
	t.Helper()
	changed := unstructuredOf(t, object)
	if err := api.Tracker().Update(resource, changed, changed.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}

var (
	validatingResource = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
	mutatingResource   = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
)

var names = Configurations{Mutating: "quaymaster", Validating: "quaymaster"}

// cluster is a SelfSigned with its webhook configurations.
type cluster struct {
	*SelfSigned
	api   *dynamicfake.FakeDynamicClient
	clock *testingclock.FakeClock
}

// newCluster returns a cluster with the authority in memory.
func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	return newReplica(t, newAPI(objects...), testingclock.NewFakeClock(now), "")
}

// newReplica returns a cluster with the authority in the Secret, if one is named.
func newReplica(t *testing.T, api *dynamicfake.FakeDynamicClient, clock *testingclock.FakeClock, secret string) *cluster {
	t.Helper()
	self := NewSelfSigned(SelfSignedOptions{
		Hosts: []string{"127.0.0.1"}, Validity: month, API: api, Configurations: names,
		Namespace: system, Secret: secret, Clock: clock,
	})
	return &cluster{SelfSigned: self, api: api, clock: clock}
}

// webhooksIn returns the webhooks of a configuration.
func webhooksIn(t *testing.T, api dynamic.ResourceInterface, name string) []admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	object, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := webhooksOf(object)
	if err != nil {
		t.Fatal(err)
	}
	return webhooks
}

// bundles returns the bundles of our three webhooks.
func (c *cluster) bundles(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for _, object := range names.objects(c.api) {
		for _, w := range webhooksIn(t, object.api, object.name) {
			all = append(all, w.ClientConfig.CABundle)
		}
	}
	if len(all) != 3 {
		t.Fatalf("got %d webhooks, want 3", len(all))
	}
	return all
}

// trusted reports whether every webhook's bundle verifies the certificate now.
func (c *cluster) trusted(t *testing.T, cert *tls.Certificate) bool {
	t.Helper()
	for _, bundle := range c.bundles(t) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := cert.Leaf.Verify(
			x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots, CurrentTime: c.clock.Now()},
		); err != nil {
			return false
		}
	}
	return true
}

func (c *cluster) current(t *testing.T) *tls.Certificate {
	t.Helper()
	cert, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (c *cluster) writes() int {
	n := 0
	for _, action := range c.api.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestSelfSignedPatchesItsOwnConfigurations(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	c.step(t.Context())
	if !c.trusted(t, c.current(t)) {
		t.Error("the certificate is not trusted after the first step")
	}
	for _, action := range c.api.Actions() {
		patch, ok := action.(k8stesting.PatchAction)
		if ok && patch.GetName() != "quaymaster" || !ok && action.GetVerb() != "get" {
			t.Errorf("unexpected call: %s %v", action.GetVerb(), action)
		}
	}
	if webhooksIn(t, c.api.Resource(validatingResource), "other")[0].ClientConfig.CABundle != nil {
		t.Error("a foreign configuration was patched")
	}
	before := c.writes()
	c.step(t.Context())
	if c.writes() != before {
		t.Error("a second step wrote again")
	}
}

// Tools that compare the configuration with its manifest must see no other order.
func TestSelfSignedKeepsTheOrderOfWebhooks(t *testing.T) {
	for range 10 {
		c := newCluster(t, ourConfigurations(nil)...)
		c.step(t.Context())
		first := webhooksIn(t, c.api.Resource(validatingResource), "quaymaster")[0]
		if first.Name != "validate.service.quaymaster.dev" {
			t.Fatalf("the first webhook is %s", first.Name)
		}
	}
}

func TestSelfSignedWaitsForConfigurations(t *testing.T) {
	c := newCluster(t)
	c.step(t.Context())
	if c.problem.String() == "" {
		t.Fatal("absent configurations are not reported")
	}
	for _, object := range ourConfigurations(nil) {
		if err := c.api.Tracker().Add(unstructuredOf(t, object)); err != nil {
			t.Fatal(err)
		}
	}
	c.step(t.Context())
	if c.problem.String() != "" || !c.trusted(t, c.current(t)) {
		t.Errorf("not trusted after the configurations appeared: %s", c.problem.String())
	}
}

// overwrite replaces the bundles of all configurations.
func (c *cluster) overwrite(t *testing.T, bundle []byte) {
	t.Helper()
	for _, object := range ourConfigurations(bundle) {
		resource := validatingResource
		if _, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			resource = mutatingResource
		}
		put(t, c.api, resource, object)
	}
}

func TestSelfSignedRepairsBundles(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	c.step(t.Context())
	c.overwrite(t, foreignAuthority(t))
	if c.trusted(t, c.current(t)) {
		t.Fatal("the test did not overwrite the bundles")
	}
	c.step(t.Context())
	if !c.trusted(t, c.current(t)) {
		t.Error("the bundles were not repaired")
	}
}

// For years, the served certificate is always trusted, and so is the one served before. The authority in memory lasts;
// one in the Secret from an earlier version lasts 300 days, and is replaced in time.
func TestSelfSignedRenews(t *testing.T) {
	earlier := mustAuthority(t, now, 10*month)
	data := mustEncode(t, earlier)
	data[authorityKey] = append(data[authorityKey], pemOf(mustAuthority(t, now.Add(-day), month).Leaf)...)
	data["tls.crt"], data["tls.key"] = []byte("of an earlier version"), []byte("of an earlier version")
	for name, test := range map[string]struct {
		secret      string
		authorities int
	}{"in memory": {"", 0}, "in a Secret": {"tls", 1}} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(append(ourConfigurations(nil), emptySecret())...)
			setData(t, api, maps.Clone(data))
			c := newReplica(t, api, testingclock.NewFakeClock(now), test.secret)
			c.step(t.Context())
			last := c.current(t)
			if test.secret != "" && last.Leaf.CheckSignatureFrom(earlier.Leaf) != nil {
				t.Error("the authority of the earlier version is not used")
			}
			servings, authorities := 0, 0
			for range 500 {
				for _, pause := range []time.Duration{day - 2*propagation, propagation, propagation} {
					signer := c.signer
					c.clock.Step(pause)
					c.step(t.Context())
					serving := c.current(t)
					if !c.trusted(t, last) || !c.trusted(t, serving) {
						t.Fatalf("not trusted at %s", c.clock.Now())
					}
					if !serving.Leaf.Equal(last.Leaf) {
						servings++
					}
					if c.signer != signer {
						authorities++
					}
					last = serving
				}
			}
			// A certificate is replaced after 20 days, and when the authority is.
			if servings < 24 || servings > 25 || authorities != test.authorities {
				t.Errorf("served %d new certificates, %d new authorities", servings, authorities)
			}
			if got := len(parseBundle(c.bundles(t)[0])); got != 1 {
				t.Errorf("the bundles have %d authorities", got)
			}
			if stored := dataOf(t, api); string(stored["tls.crt"]) != "of an earlier version" {
				t.Error("another key of the Secret was changed")
			}
		})
	}
}

// rotating returns a replica whose Secret was emptied, and the authority from before.
func rotating(t *testing.T) (*cluster, *tls.Certificate) {
	t.Helper()
	replica, api := replicas(t)
	c := replica()
	c.step(t.Context())
	first := c.signer
	setData(t, api, nil)
	return c, first
}

// A new authority signs only after API servers have had time to see it, and the previous one stays for a while.
func TestSelfSignedAnnouncesItsAuthority(t *testing.T) {
	c, first := rotating(t)
	previous := c.current(t)
	c.step(t.Context())
	if c.signer != first || c.authority == first || !c.trusted(t, c.current(t)) {
		t.Fatal("the certificate of the previous CA is not served any more")
	}
	for _, bundle := range c.bundles(t) {
		if got := parseBundle(bundle); len(got) != 2 {
			t.Fatalf("a bundle has %d authorities, want 2", len(got))
		}
	}
	c.clock.Step(propagation - time.Second)
	c.step(t.Context())
	if c.signer != first {
		t.Error("switched before API servers could see the new authority")
	}
	c.clock.Step(time.Second)
	c.step(t.Context())
	if c.signer != c.authority || !c.trusted(t, c.current(t)) || !c.trusted(t, previous) {
		t.Error("the webhook still serves a certificate of the previous CA, or its CA is no longer trusted")
	}
	c.step(t.Context())
	c.clock.Step(keepPrevious - time.Second)
	c.step(t.Context())
	if !c.trusted(t, previous) {
		t.Error("the previous CA was removed while other replicas may use it")
	}
	c.clock.Step(time.Second)
	c.step(t.Context())
	if c.trusted(t, previous) || !c.trusted(t, c.current(t)) {
		t.Error("the previous CA is still trusted")
	}
}

// While API servers do not see the new authority, the certificate of the old one stays in use, and is renewed.
func TestSelfSignedDoesNotSwitchWithoutTrust(t *testing.T) {
	c, first := rotating(t)
	c.api.PrependReactor("patch", "mutatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is down")
	})
	for range 12 {
		c.clock.Step(month / 4)
		c.step(t.Context())
	}
	if c.signer != first || !c.trusted(t, c.current(t)) {
		t.Error("switched to an untrusted certificate")
	}
	if want := `patch mutatingwebhookconfiguration "quaymaster": etcd is down`; c.problem.String() != want {
		t.Errorf("problem is %q, want %q", c.problem.String(), want)
	}
}

// When the source of certificates changes to this one, replicas with a certificate of the previous source stay trusted during
// the roll-out, but not for ever.
func TestSelfSignedKeepsThePreviousCA(t *testing.T) {
	previous := mustForeign(t, now, "cert-manager")
	serving := mustSign(t, previous, now, 2*keepForeign, "127.0.0.1")
	c := newCluster(t, ourConfigurations(pemOf(previous.Leaf))...)
	c.step(t.Context())
	if !c.trusted(t, serving) || !c.trusted(t, c.current(t)) {
		t.Fatal("not both certificates are trusted")
	}
	for range 47 {
		c.clock.Step(keepForeign / 48)
		c.step(t.Context())
	}
	if !c.trusted(t, serving) {
		t.Error("the previous certificate is not trusted until the end of the roll-out")
	}
	before := c.writes()
	c.clock.Step(keepForeign / 48)
	c.step(t.Context())
	if c.trusted(t, serving) || !c.trusted(t, c.current(t)) {
		t.Error("the previous CA is still trusted, or the new one is not")
	}
	if c.writes() == before {
		t.Error("nothing was written")
	}
}

// Changes by others are repaired as soon as they are seen. If nothing changes, almost nothing is done.
func TestSelfSignedReactsToChanges(t *testing.T) {
	withoutWatchList(t)
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(append(ourConfigurations(nil), emptySecret())...)
		self := NewSelfSigned(SelfSignedOptions{
			Hosts: []string{"127.0.0.1"}, Validity: month, API: api, Configurations: names,
			Namespace: system, Secret: "tls", Clock: clock.RealClock{},
		})
		c := &cluster{SelfSigned: self, api: api, clock: testingclock.NewFakeClock(time.Now())}
		go func() { _ = c.Start(t.Context()) }()
		time.Sleep(time.Minute)
		if !c.trusted(t, c.current(t)) {
			t.Fatal("not trusted at start")
		}

		before := len(api.Actions())
		time.Sleep(time.Hour)
		// A step reads three objects.
		if n := len(api.Actions()) - before; n > 3*7 {
			t.Errorf("%d calls of the API server in an hour in which nothing changed", n)
		}

		c.overwrite(t, foreignAuthority(t))
		time.Sleep(time.Second)
		synctest.Wait()
		if !c.trusted(t, c.current(t)) {
			t.Error("overwritten bundles are not repaired within a second")
		}

		time.Sleep(time.Minute)
		setData(t, api, nil)
		time.Sleep(time.Second)
		if _, err := parseAuthority(dataOf(t, api), time.Now()); err != nil {
			t.Errorf("an emptied Secret is not repaired: %v", err)
		}

		// Another process insists on its bundle.
		before = c.writes()
		foreign := foreignAuthority(t)
		for range 600 {
			time.Sleep(time.Second / 10)
			c.overwrite(t, foreign)
		}
		if n := c.writes() - before; n < 2*10 || n > 2*(maxSteps+13) {
			t.Errorf("%d writes in a minute in which another process overwrote the bundles", n)
		}
	})
}

func TestSelfSignedEnds(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Only the version of a configuration that was read is patched. If another replica was faster, it is read again.
func TestSelfSignedPatchesTheVersionRead(t *testing.T) {
	object := ourConfigurations(nil)[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
	object.ResourceVersion = "42"
	c := newCluster(t, append(ourConfigurations(nil)[1:], object)...)
	var patches []string
	c.api.PrependReactor("patch", mutatingResource.Resource, func(action k8stesting.Action) (bool, runtime.Object, error) {
		patches = append(patches, string(action.(k8stesting.PatchAction).GetPatch()))
		if len(patches) > 1 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(mutatingResource.GroupResource(), object.Name, errors.New("it has been modified"))
	})
	c.step(t.Context())
	if len(patches) != 2 || !c.trusted(t, c.current(t)) || c.problem.String() != "" {
		t.Errorf("%d patches, problem %q", len(patches), c.problem.String())
	}
	for _, patch := range patches {
		if !strings.Contains(patch, `"path":"/metadata/resourceVersion","value":"42"`) {
			t.Errorf("the patch is not limited to the version: %s", patch)
		}
	}
}
