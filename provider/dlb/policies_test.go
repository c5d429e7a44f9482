package dlb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

// policies implements Policies with the same policies for every namespace.
type policies struct {
	all []*policy.Policy
	err error
}

func (p *policies) Applicable(context.Context, string) ([]*policy.Policy, error) { return p.all, p.err }

// set replaces all policies by one with the spec.
func (p *policies) set(t *testing.T, spec v1alpha1.LoadBalancerPolicySpec) {
	t.Helper()
	compiled, findings := policy.Compile(&v1alpha1.LoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"}, Spec: spec,
	})
	for _, f := range findings {
		t.Log(f)
	}
	p.all = []*policy.Policy{compiled}
}

func startWithPolicies(t *testing.T) (*fixture, *policies) {
	t.Helper()
	p := &policies{}
	return start(t, 0, func(o *dlb.Options) { o.Policies = p }), p
}

func maxQPS(most int32) v1alpha1.LoadBalancerPolicySpec {
	return v1alpha1.LoadBalancerPolicySpec{Rules: []v1alpha1.Rule{{Annotation: annotation + "listener-maxqps", Max: new(intstr.FromInt32(most))}}}
}

// Services that bypassed admission get the same defaults and are refused by the same rules.
func TestPoliciesWithoutAdmission(t *testing.T) {
	f, p := startWithPolicies(t)
	spec := maxQPS(20000)
	spec.Defaults = map[string]string{annotation + "listener-maxqps": "8000", annotation + "network-type": "private"}
	p.set(t, spec)

	bad := builder.Service(builder.DLB("listener-maxqps", "30000"))
	if _, err := f.ensure(bad); err == nil {
		t.Error("a Service that breaks a rule got a load balancer")
	}
	f.expectCondition(bad, metav1.ConditionFalse, "InvalidConfiguration", `exceeds the maximum of 20000 set by LoadBalancerPolicy "limits"`)
	if all := f.all(); len(all) != 0 {
		t.Fatalf("load balancers %v", all)
	}

	f.mustEnsure(builder.Service())
	if lb := f.only(); lb.Listeners[0].MaxQPS != 8000 || lb.Scheme != "internal" {
		t.Errorf("max QPS %d, scheme %s; want the policy's 8000 and internal", lb.Listeners[0].MaxQPS, lb.Scheme)
	}
}

// A load balancer is not changed if its Service starts to break a rule, or if a new rule forbids what it has. Other
// changes of the Service still reach the cloud, as admission promised.
func TestPoliciesAndChanges(t *testing.T) {
	f, p := startWithPolicies(t)
	two := builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("api", corev1.ProtocolTCP, 443))
	f.mustEnsure(builder.Service(two, builder.DLB("listener-maxqps", "30000")))
	before := f.only()

	p.set(t, maxQPS(20000))
	f.cloud.Calls()
	f.mustEnsure(builder.Service(two, builder.DLB("listener-maxqps", "30000")))
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) > 0 {
		t.Errorf("writes after the policy alone changed: %v", writes)
	}

	more := builder.Service(two, builder.DLB("listener-maxqps", "40000"))
	if _, err := f.ensure(more); err == nil {
		t.Error("a greater value was accepted")
	}
	f.expectCondition(more, metav1.ConditionFalse, "InvalidConfiguration", `"40000": exceeds the maximum of 20000`)
	silent := builder.Service(two, builder.DLB("listener-maxqps.80", "30000"))
	f.mustEnsure(silent)
	if lb := f.only(); lb.Listeners[0].MaxQPS != 30000 || lb.Listeners[1].MaxQPS != 10000 {
		t.Errorf("listeners %+v", lb.Listeners)
	}

	f.mustEnsure(builder.Service(two, builder.DLB("listener-maxqps.80", "30000"), builder.DLB("scheduler", "source-ip")))
	after := f.only()
	if after.Pools[0].Algorithm != "source_ip" || after.ID != before.ID {
		t.Errorf("a change elsewhere did not arrive: %+v", after.Pools[0])
	}
	three := builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("new", corev1.ProtocolTCP, 8080))
	if _, err := f.ensure(builder.Service(three, builder.DLB("listener-maxqps", "30000"))); err == nil {
		t.Error("a new listener above the limit was accepted")
	}
}

// A mode that the load balancer's addresses do not have yet is a new violation.
func TestPoliciesAndTheIPMode(t *testing.T) {
	f, p := startWithPolicies(t)
	f.mustEnsure(builder.Service())
	p.set(t, v1alpha1.LoadBalancerPolicySpec{Rules: []v1alpha1.Rule{{Annotation: annotation + "ip-mode", Allowed: []string{"vip"}}}})
	proxy := builder.Service(builder.DLB("ip-mode", "proxy"))
	if _, err := f.ensure(proxy); err == nil {
		t.Error("a forbidden mode was accepted")
	}
	if lb := f.only(); lb.VIPs[0].Mode != cloudv1.VIPModeVIP {
		t.Errorf("mode %s, want vip", lb.VIPs[0].Mode)
	}
}

// For all annotations of a Service, the cloud's load balancer is recognised as built from them: if a later policy
// forbids all of them, no violation is new.
func TestPoliciesRecogniseWhatIsThere(t *testing.T) {
	f, p := startWithPolicies(t)
	svc := builder.Service(
		builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443), builder.Port("dns", corev1.ProtocolUDP, 53)),
		builder.DLB("listener-maxqps", "5000"), builder.DLB("listener-maxconn.80", "70"), builder.DLB("listener-idle-timeout", "1500ms"),
		builder.DLB("listener-protocol.tls", "https"), builder.DLB("listener-tls-certificate-id.tls", "cert-01234567"),
		builder.DLB("listener-proxy-protocol.web", "v2"), builder.DLB("scheduler", "least-connections"),
		builder.DLB("health-check-protocol.80", "http"), builder.DLB("health-check-path.80", "/up"), builder.DLB("health-check-expected-codes.80", "200,204-206"),
		builder.DLB("health-check-interval", "20s"), builder.DLB("health-check-timeout", "3s"),
		builder.DLB("health-check-healthy-threshold", "4"), builder.DLB("health-check-unhealthy-threshold", "5"),
		builder.DLB("network-type", "private"), builder.DLB("subnet-id", "subnet-a"), builder.DLB("zones", "eu-1b,eu-1a"), builder.DLB("flavor", "large"),
		builder.DLB("bandwidth-mbps", "100"), builder.DLB("ingress-group", "default"), builder.DLB("drain-timeout", "5s"), builder.DLB("tags", "team=edge"),
		builder.DLB("deletion-protection", "true"), builder.DLB("retain-on-delete", "true"), builder.DLB("ip-mode", "proxy"),
	)
	f.mustEnsure(svc)
	var forbidAll v1alpha1.LoadBalancerPolicySpec
	own, _ := library.BuiltIn().Find(loadbalancer.Catalog)
	for _, a := range own.Document().Annotations {
		forbidAll.Rules = append(forbidAll.Rules, v1alpha1.Rule{Annotation: a.Name, Forbidden: true})
	}
	p.set(t, forbidAll)
	f.cloud.Calls()
	f.mustEnsure(svc.DeepCopy())
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

// The network type is chosen once: neither adding nor removing a policy may change it.
func TestPoliciesKeepTheNetworkType(t *testing.T) {
	f, p := startWithPolicies(t)
	p.set(t, v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{annotation + "network-type": "private"}})
	svc := builder.Service()
	status := f.mustEnsure(svc)
	p.all = nil
	f.cloud.Calls()
	svc = svc.DeepCopy()
	svc.Status.LoadBalancer = *status
	f.mustEnsure(svc)
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) > 0 || f.only().Scheme != "internal" {
		t.Errorf("writes %v, scheme %s", writes, f.only().Scheme)
	}
}

// A lost load balancer is created again, even if its Service breaks a rule that was added later.
func TestPoliciesAndALostLoadBalancer(t *testing.T) {
	f, p := startWithPolicies(t)
	svc := builder.Service(builder.DLB("listener-maxqps", "30000"))
	published := f.mustEnsure(svc.DeepCopy())
	lost := f.only()
	if _, err := f.cloud.Client.DeleteLoadBalancer(t.Context(), lost.ID, cloudapi.WriteOptions{IfMatch: lost.Revision}); err != nil {
		t.Fatal(err)
	}
	p.set(t, maxQPS(20000))
	f.edit(svc, func(s *corev1.Service) { s.Status.LoadBalancer = *published })
	for range 3 {
		_, err := f.ensure(svc)
		if f.pass(30); err == nil {
			break
		}
	}
	if lb := f.only(); lb.ID == lost.ID || lb.Listeners[0].MaxQPS != 30000 {
		t.Errorf("load balancer %s with %d", lb.ID, lb.Listeners[0].MaxQPS)
	}
}

// While the policies are unknown, it is unknown what a Service asks for, so its load balancer is not changed.
func TestPoliciesUnknown(t *testing.T) {
	f, p := startWithPolicies(t)
	f.mustEnsure(builder.Service())
	p.err = errors.New("no answer")
	f.cloud.Calls()
	if _, err := f.ensure(builder.Service(builder.DLB("listener-maxqps", "5"))); !errors.Is(err, p.err) {
		t.Errorf("got %v, want %v", err, p.err)
	}
	if calls := f.cloud.Calls(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

// TestPoliciesOfANamespaceThatIsGone: a Service that was removed by force from a namespace that no longer exists does not
// keep its load balancer for ever. Its own annotations still count.
func TestPoliciesOfANamespaceThatIsGone(t *testing.T) {
	for retain, left := range map[string]int{"false": 0, "true": 1} {
		f, p := startWithPolicies(t)
		svc := builder.Service(builder.DLB("retain-on-delete", retain))
		f.mustEnsure(svc)
		p.err = fmt.Errorf("get namespace shop: %w", apierrors.NewNotFound(corev1.Resource("namespaces"), "shop"))
		deleting(svc)
		f.mustRemove(svc)
		if all := f.all(); len(all) != left {
			t.Errorf("retain-on-delete %s: %d load balancers are left, want %d", retain, len(all), left)
		}
	}
}
