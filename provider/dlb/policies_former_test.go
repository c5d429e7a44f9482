package dlb_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

// Changes that admission allowed, because the violation already existed, reach the cloud. In each case, the load
// balancer breaks a rule that was added later, and the Service changes something else.
func TestPoliciesLetOtherChangesPass(t *testing.T) {
	web, tls := builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443)
	dnsTCP, dnsUDP := builder.Port("dns-tcp", corev1.ProtocolTCP, 53), builder.Port("dns", corev1.ProtocolUDP, 53)
	qps := maxQPS(6000)
	scheduler := v1alpha1.LoadBalancerPolicySpec{Rules: []v1alpha1.Rule{{Annotation: annotation + "scheduler", Allowed: []string{"round-robin"}}}}
	tests := map[string]struct {
		later         v1alpha1.LoadBalancerPolicySpec
		before, after []builder.ServiceOption
	}{
		"a port with a form of its own comes": {
			qps,
			[]builder.ServiceOption{builder.Ports(web)},
			[]builder.ServiceOption{builder.Ports(web, tls), builder.DLB("listener-maxqps.443", "100")},
		},
		"a form for a port changes beside a plain key without effect": {
			qps,
			[]builder.ServiceOption{builder.DLB("listener-maxqps", "10000"), builder.DLB("listener-maxqps.web", "200")},
			[]builder.ServiceOption{builder.DLB("listener-maxqps", "10000"), builder.DLB("listener-maxqps.web", "100")},
		},
		"one of two listeners of a number says nothing any more": {
			scheduler,
			[]builder.ServiceOption{
				builder.Ports(dnsTCP, dnsUDP), builder.DLB("scheduler.dns", "source-ip"), builder.DLB("scheduler.dns-tcp", "source-ip"),
			},
			[]builder.ServiceOption{builder.Ports(dnsTCP, dnsUDP), builder.DLB("scheduler.dns", "source-ip")},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, p := startWithPolicies(t)
			f.mustEnsure(builder.Service(test.before...))
			p.set(t, test.later)
			f.mustEnsure(builder.Service(test.after...))
		})
	}
}

// A Service may set its subnet while a policy's default makes the load balancer private, even after the load balancer
// was created.
func TestPoliciesKeepWhatGoesWithTheNetworkType(t *testing.T) {
	f, p := startWithPolicies(t)
	p.set(t, v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{annotation + "network-type": "private"}})
	svc := builder.Service(builder.DLB("subnet-id", "subnet-a"))
	status := f.mustEnsure(svc)
	for range 2 {
		svc = svc.DeepCopy()
		svc.Status.LoadBalancer = *status
		if _, err := f.ensureStored(svc); err != nil {
			t.Fatal(err)
		}
		p.all = nil
	}
	builder.DLB("scheduler", "fastest")(svc)
	if _, err := f.ensureStored(svc); err == nil {
		t.Error("a bad value was accepted")
	}
	f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration", `"fastest"`)
}

// The subnet is chosen once, even before the Service has published an address.
func TestPoliciesKeepTheSubnet(t *testing.T) {
	f, p := startWithPolicies(t)
	subnet := func(id string) {
		p.set(t, v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{annotation + "network-type": "private", annotation + "subnet-id": id}})
	}
	subnet("subnet-a")
	f.mustEnsure(builder.Service())
	subnet("subnet-b")
	f.cloud.Calls()
	f.mustEnsure(builder.Service())
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

// Deletion protection by a policy's default ends only if the Service's annotation says so, even if the Service changes
// its type.
func TestPoliciesProtectAfterChangeOfType(t *testing.T) {
	f, p := startWithPolicies(t)
	p.set(t, v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{annotation + "deletion-protection": "true"}})
	svc := builder.Service()
	f.mustEnsure(svc)
	svc = svc.DeepCopy()
	svc.Spec.Type = corev1.ServiceTypeClusterIP
	if err := f.removeStored(svc); err == nil {
		t.Error("a protected load balancer was deleted")
	}
	f.only()
	builder.DLB("deletion-protection", "false")(svc)
	if err := f.removeStored(svc); err != nil {
		t.Error(err)
	}
}
