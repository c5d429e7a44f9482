package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	webhookURL = "https://127.0.0.1:9443/validate-service"
	month      = 30 * day
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
			ObjectMeta: metav1.ObjectMeta{Name: "somebody-else"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "validate.example.com", ClientConfig: config}},
		},
	}
}

var names = Configurations{Mutating: "quaymaster", Validating: "quaymaster"}

// cluster is a SelfSigned with the configurations it cares for.
type cluster struct {
	*SelfSigned
	api   *fake.Clientset
	clock *testingclock.FakeClock
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	c := &cluster{api: fake.NewClientset(objects...), clock: testingclock.NewFakeClock(now)}
	var err error
	c.SelfSigned, err = NewSelfSigned(SelfSignedOptions{
		Hosts: []string{"127.0.0.1"}, Validity: month, API: c.api.AdmissionregistrationV1(), Configurations: names, Clock: c.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bundles are those of our three webhooks.
func (c *cluster) bundles(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for _, object := range names.objects(c.api.AdmissionregistrationV1()) {
		state, err := object.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range state.webhooks {
			all = append(all, w.client.CABundle)
		}
	}
	if len(all) != 3 {
		t.Fatalf("there are %d webhooks, want 3", len(all))
	}
	return all
}

// trusted tells whether every webhook's bundle verifies the certificate now.
func (c *cluster) trusted(t *testing.T, cert *tls.Certificate) bool {
	t.Helper()
	for _, bundle := range c.bundles(t) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots, CurrentTime: c.clock.Now()}); err != nil {
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
	other, err := c.api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "somebody-else", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if other.Webhooks[0].ClientConfig.CABundle != nil {
		t.Error("somebody else's configuration was patched")
	}
	before := c.writes()
	c.step(t.Context())
	if c.writes() != before {
		t.Error("a second step wrote again")
	}
}

func TestSelfSignedWaitsForConfigurations(t *testing.T) {
	c := newCluster(t)
	c.step(t.Context())
	if c.problem == "" {
		t.Fatal("absent configurations are no problem")
	}
	for _, object := range ourConfigurations(nil) {
		if err := c.api.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	c.step(t.Context())
	if c.problem != "" || !c.trusted(t, c.current(t)) {
		t.Errorf("not trusted after the configurations appeared: %s", c.problem)
	}
}

func TestSelfSignedMendsBundles(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	c.step(t.Context())
	for _, object := range ourConfigurations(foreignAuthority(t)) {
		gvr := admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
		if _, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			gvr.Resource = "mutatingwebhookconfigurations"
		}
		if err := c.api.Tracker().Update(gvr, object, ""); err != nil {
			t.Fatal(err)
		}
	}
	if c.trusted(t, c.current(t)) {
		t.Fatal("the test did not overwrite the bundles")
	}
	c.step(t.Context())
	if !c.trusted(t, c.current(t)) {
		t.Error("the bundles were not mended")
	}
}

// At every moment of a rotation, what is served is trusted; so is what was served a moment before.
func TestSelfSignedRotates(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	c.step(t.Context())
	first := c.current(t)

	c.clock.Step(month*2/3 - time.Minute)
	c.step(t.Context())
	if c.next != nil {
		t.Fatal("rotated too early")
	}
	c.clock.Step(2 * time.Minute)
	c.step(t.Context())
	if c.current(t) != first {
		t.Error("changed certificates before API servers could know the new authority")
	}
	if c.next == nil || !c.trusted(t, c.next.serving) || !c.trusted(t, first) {
		t.Fatal("both authorities should be in the bundles")
	}
	c.clock.Step(propagation)
	c.step(t.Context())
	second := c.current(t)
	if second == first {
		t.Fatal("still serves the old certificate")
	}
	if !c.trusted(t, second) || !c.trusted(t, first) {
		t.Error("both certificates should be trusted after the change")
	}
	c.clock.Step(month / 3)
	c.step(t.Context())
	if c.trusted(t, first) || !c.trusted(t, second) {
		t.Error("the second certificate alone should be trusted when the first has expired")
	}
	if diff := second.Leaf.NotAfter.Sub(first.Leaf.NotAfter); diff < month/2 {
		t.Errorf("the second certificate lasts only %s longer", diff)
	}
}

// While API servers do not know the new authority, the old certificate stays in use.
func TestSelfSignedDoesNotChangeWithoutTrust(t *testing.T) {
	c := newCluster(t, ourConfigurations(nil)...)
	c.step(t.Context())
	first := c.current(t)
	c.api.PrependReactor("patch", "mutatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is down")
	})
	c.clock.Step(month * 2 / 3)
	for range 5 {
		c.clock.Step(propagation)
		c.step(t.Context())
	}
	if c.current(t) != first {
		t.Error("changed to a certificate that nobody trusts")
	}
	if want := `patch mutatingwebhookconfiguration "quaymaster": etcd is down`; c.problem != want {
		t.Errorf("problem is %q, want %q", c.problem, want)
	}
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
