package policy

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/loadbalancer"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// one is a cluster with a single policy, which applies to every namespace.
type one struct{ entry *policystore.Entry }

func (*one) HasSynced() bool                         { return true }
func (*one) Subscribe(policystore.Subscriber)        {}
func (o *one) Policies() []*engine.Policy            { return []*engine.Policy{o.entry.Policy} }
func (*one) Labels(string) (map[string]string, bool) { return nil, true }
func (o *one) Entry(key engine.Key) (*policystore.Entry, bool) {
	return o.entry, key == o.entry.Policy.Key()
}

func (o *one) Candidates(string) []*engine.Policy   { return o.Policies() }
func (*one) Excluded(*engine.Policy) (string, bool) { return "", false }

func (o *one) put(generation int64) {
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	p.Name = "shared"
	p.Spec.Rules = []v1alpha1.Rule{{
		Annotation: loadbalancer.Prefix + "listener-maxqps", Max: new(intstr.FromInt32(2000 + int32(generation%2))),
	}}
	compiled, _ := engine.Compile(p)
	o.entry = &policystore.Entry{Policy: compiled, Generation: generation, ResourceVersion: strconv.FormatInt(generation, 10)}
}

// tenThousand returns a Controller that has validated 10,000 Services in 100 namespaces, half of which violate the
// policy.
func tenThousand(b *testing.B) (*Controller, *one) {
	b.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	store := &one{}
	store.put(1)
	c, err := New(Options{
		Services: factory.Core().V1().Services(), Store: store, Registerer: prometheus.NewRegistry(),
		Reviewer: review.Own("mycloud.io/dlb", true),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.changes.ShutDown()
		c.statuses.ShutDown()
	})
	for i := range 10_000 {
		svc := builder.Service(
			builder.DLB("listener-maxqps", strconv.Itoa(1000+i%2*2000)), builder.DLB("health-check-interval", "10s"),
			builder.DLB("ingress-group", "edge"), builder.DLB("listener-idle-timeout", "60s"),
			builder.Ports(builder.Port("http", corev1.ProtocolTCP, 80), builder.Port("https", corev1.ProtocolTCP, 443)),
		)
		svc.Namespace, svc.Name, svc.ResourceVersion = fmt.Sprintf("team-%d", i%100), fmt.Sprintf("web-%d", i), "1"
		if err := c.services.GetStore().Add(svc); err != nil {
			b.Fatal(err)
		}
	}
	c.validateAll()
	return c, store
}

// BenchmarkReevaluate10000 measures a change of a policy that applies to all of them.
func BenchmarkReevaluate10000(b *testing.B) {
	c, store := tenThousand(b)
	key := store.entry.Policy.Key()
	generation := int64(1)
	b.ReportAllocs()
	for b.Loop() {
		generation++
		store.put(generation)
		c.follow(b.Context(), change{policy: key})
	}
	if sums := c.ledger.sums(key); sums.Services != 10_000 || sums.Violating != 5_000 {
		b.Fatalf("%d Services, %d violating", sums.Services, sums.Violating)
	}
}

// BenchmarkUnchanged10000 measures a change that affects no Service, such as a new status.
func BenchmarkUnchanged10000(b *testing.B) {
	c, store := tenThousand(b)
	b.ReportAllocs()
	for b.Loop() {
		c.follow(b.Context(), change{policy: store.entry.Policy.Key()})
		c.follow(b.Context(), change{namespace: "team-7"})
		c.follow(b.Context(), change{namespace: "team-7", name: "web-7"})
	}
}

// BenchmarkStatus10000 measures a status, which is computed every second while its Services change.
func BenchmarkStatus10000(b *testing.B) {
	c, store := tenThousand(b)
	b.ReportAllocs()
	for b.Loop() {
		c.due(store.entry.Policy.Key())
	}
}
