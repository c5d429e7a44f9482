package review_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

// recorded sets AnnotationDefaulted, in which DLB- stands for the prefix.
func recorded(entries ...string) builder.ServiceOption {
	return builder.Annotation(policy.AnnotationDefaulted,
		strings.ReplaceAll(strings.Join(entries, ","), "DLB-", loadbalancer.Prefix))
}

func published(svc *corev1.Service) {
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
}

// What an update of a load balancer does to its defaults.
func TestRenew(t *testing.T) {
	const (
		defaulted = policy.AnnotationDefaulted
		byLimits  = "=LoadBalancerPolicy/limits"
	)
	type options = []builder.ServiceOption
	scheme := builder.Annotation("example.com/scheme", "internal")
	qps := builder.DLB("listener-maxqps", "8000")
	schemeAndQPS := options{scheme, qps, recorded("example.com/scheme"+byLimits, "DLB-listener-maxqps"+byLimits)}
	private := options{builder.DLB("network-type", "private"), recorded("DLB-network-type" + byLimits)}
	builtIn := options{builder.DLB("listener-maxqps", "10000"), recorded("DLB-listener-maxqps=built-in")}
	refresh := builder.Annotation(policy.AnnotationRefresh, "2")
	const both = "defaults: {example.com/scheme: internal, DLB-listener-maxqps: '8000'}"
	tests := map[string]struct {
		policy  string
		old     options
		current options
		refresh bool
		want    map[string]string
	}{
		"nothing changed": {policy: both, old: schemeAndQPS, current: schemeAndQPS},
		"replaced as a whole": {
			policy: both, old: schemeAndQPS,
			want: map[string]string{
				"example.com/scheme": "internal", "DLB-listener-maxqps": "8000",
				defaulted: "example.com/scheme" + byLimits + ",DLB-listener-maxqps" + byLimits,
			},
		},
		"replaced as a whole, built-in": {
			old: builtIn, want: map[string]string{"DLB-listener-maxqps": "10000", defaulted: "DLB-listener-maxqps=built-in"},
		},
		"replaced with a value of its own": {
			policy: both, old: schemeAndQPS, current: options{builder.DLB("listener-maxqps", "5")},
			want: map[string]string{"example.com/scheme": "internal", defaulted: "example.com/scheme" + byLimits},
		},
		"replaced after the policy was deleted": {
			old:  options{scheme, recorded("example.com/scheme" + byLimits)},
			want: map[string]string{"example.com/scheme": "internal", defaulted: "example.com/scheme" + byLimits},
		},
		"replaced after the policy got another value": {
			policy: "defaults: {example.com/scheme: external}", old: options{scheme, recorded("example.com/scheme" + byLimits)},
			want: map[string]string{"example.com/scheme": "internal", defaulted: "example.com/scheme" + byLimits},
		},
		"replaced after the user changed the value, which ended the record": {
			policy: both, old: options{scheme, builder.DLB("listener-maxqps", "5"), recorded("example.com/scheme" + byLimits)},
			want: map[string]string{"example.com/scheme": "internal", defaulted: "example.com/scheme" + byLimits},
		},
		"replaced, but a rule now forbids the value": {
			policy: "rules: [{annotation: DLB-listener-maxqps, max: 7000}]\ndefaults: {DLB-listener-maxqps: '6000'}", old: schemeAndQPS,
			want: map[string]string{
				"example.com/scheme": "internal", "DLB-listener-maxqps": "6000",
				defaulted: "example.com/scheme" + byLimits + ",DLB-listener-maxqps" + byLimits,
			},
		},
		"replaced, and no value is allowed": {
			policy: "rules: [{annotation: example.com/scheme, forbidden: true}]", old: options{scheme, recorded("example.com/scheme" + byLimits)},
		},
		"replaced, and the value does not fit the new Service": {
			policy:  "defaults: {DLB-health-check-timeout: 8s}",
			old:     options{builder.DLB("health-check-timeout", "8s"), recorded("DLB-health-check-timeout" + byLimits)},
			current: options{builder.DLB("health-check-interval", "6s")},
		},
		"replaced, immutable": {
			policy: "defaults: {DLB-network-type: public}", old: private,
			want: map[string]string{"DLB-network-type": "private", defaulted: "DLB-network-type" + byLimits},
		},
		"immutable, although a rule now forbids it": {
			policy: "rules: [{annotation: DLB-network-type, allowed: [public]}]", old: private,
			want: map[string]string{"DLB-network-type": "private", defaulted: "DLB-network-type" + byLimits},
		},
		"immutable, with a new value": {old: private, current: options{builder.DLB("network-type", "public")}},
		"immutable, removed on purpose": {
			old: private, current: options{recorded("DLB-network-type" + byLimits)},
			want: map[string]string{"DLB-network-type": "private"},
		},
		"removed on purpose": {
			policy: both, old: schemeAndQPS, current: options{qps, recorded("example.com/scheme"+byLimits, "DLB-listener-maxqps"+byLimits)},
			want: map[string]string{defaulted: "DLB-listener-maxqps" + byLimits},
		},
		"all removed on purpose": {policy: both, old: schemeAndQPS, current: options{recorded("")}},
		"changed": {
			policy: both, old: schemeAndQPS,
			current: options{scheme, builder.DLB("listener-maxqps", "5"), recorded("example.com/scheme"+byLimits, "DLB-listener-maxqps"+byLimits)},
			want:    map[string]string{defaulted: "example.com/scheme" + byLimits},
		},
		"the record alone is removed": {policy: both, old: schemeAndQPS, current: options{scheme, qps}},
		"a record of other Services": {
			policy:  both,
			current: options{qps, scheme, builder.DLB("flavor", "large"), recorded("DLB-flavor"+byLimits, "DLB-listener-maxqps=built-in", "example.com/scheme"+byLimits)},
			want:    map[string]string{defaulted: "example.com/scheme" + byLimits},
		},
		"refreshed": {
			policy: both, old: builtIn, current: append(options{refresh}, builtIn...), refresh: true,
			want: map[string]string{
				"DLB-listener-maxqps": "8000", "example.com/scheme": "internal", "DLB-listener-idle-timeout": "60s",
				defaulted: "example.com/scheme" + byLimits + ",DLB-listener-idle-timeout=built-in,DLB-listener-maxqps" + byLimits,
			},
		},
		"refreshed, with values of its own": {
			policy: both, old: options{qps}, refresh: true,
			current: options{refresh, qps, builder.Annotation("example.com/scheme", "x"), builder.DLB("listener-idle-timeout", "9s")},
		},
		"refreshed after the policy was deleted": {
			old: schemeAndQPS, current: append(options{refresh, builder.DLB("listener-idle-timeout", "9s")}, schemeAndQPS...), refresh: true,
			want: map[string]string{"DLB-listener-maxqps": "10000", defaulted: "example.com/scheme" + byLimits + ",DLB-listener-maxqps=built-in"},
		},
		"refreshed, but no default is allowed": {
			policy: "rules: [{annotation: DLB-listener-maxqps, max: 6000}]", old: builtIn, refresh: true,
			current: append(options{refresh, builder.DLB("listener-idle-timeout", "9s")}, builtIn...),
		},
		"refreshed with an address": {
			policy: "defaults: {DLB-network-type: public, DLB-listener-maxqps: '8000'}", refresh: true,
			old:     append(options{published}, private...),
			current: append(options{refresh, published, builder.DLB("listener-idle-timeout", "9s")}, private...),
			want:    map[string]string{"DLB-listener-maxqps": "8000", defaulted: "DLB-listener-maxqps" + byLimits + ",DLB-network-type" + byLimits},
		},
		"refreshed and replaced as a whole": {
			policy: "defaults: {DLB-listener-maxqps: '6000'}", old: schemeAndQPS, refresh: true,
			current: options{refresh, builder.DLB("listener-idle-timeout", "9s")},
			want: map[string]string{
				"DLB-listener-maxqps": "6000", "example.com/scheme": "internal",
				defaulted: "example.com/scheme" + byLimits + ",DLB-listener-maxqps" + byLimits,
			},
		},
		"refreshed and replaced as a whole, by another policy": {
			policy: "defaults: {DLB-listener-maxqps: '6000'}", refresh: true,
			old:     options{qps, recorded("DLB-listener-maxqps=ClusterLoadBalancerPolicy/shared")},
			current: options{refresh, builder.DLB("listener-idle-timeout", "9s")},
			want:    map[string]string{"DLB-listener-maxqps": "6000", defaulted: "DLB-listener-maxqps" + byLimits},
		},
		"refreshed, but another default does not fit": {
			policy: "defaults: {DLB-listener-maxqps: '8000', DLB-subnet-id: subnet-1}", refresh: true,
			old: builtIn, current: append(options{refresh, builder.DLB("listener-idle-timeout", "9s")}, builtIn...),
			want: map[string]string{"DLB-listener-maxqps": "8000", defaulted: "DLB-listener-maxqps" + byLimits},
		},
		"replaced, but another default does not fit": {
			policy: "defaults: {DLB-listener-maxqps: '8000'}",
			old: append(options{builder.DLB("health-check-timeout", "8s")},
				builder.DLB("listener-maxqps", "10000"), recorded("DLB-health-check-timeout"+byLimits, "DLB-listener-maxqps=built-in")),
			current: options{builder.DLB("health-check-interval", "6s")},
			want:    map[string]string{"DLB-listener-maxqps": "10000", defaulted: "DLB-listener-maxqps=built-in"},
		},
		"replaced, and only the current default fits the new Service": {
			policy:  "defaults: {DLB-health-check-timeout: 4s}",
			old:     options{builder.DLB("health-check-timeout", "8s"), recorded("DLB-health-check-timeout=ClusterLoadBalancerPolicy/shared")},
			current: options{builder.DLB("health-check-interval", "6s")},
			want:    map[string]string{"DLB-health-check-timeout": "4s", defaulted: "DLB-health-check-timeout" + byLimits},
		},
		"refreshed, but the current default does not fit": {
			policy:  "defaults: {DLB-health-check-timeout: 8s}",
			old:     options{builder.DLB("health-check-timeout", "4s"), recorded("DLB-health-check-timeout" + byLimits)},
			refresh: true,
			current: options{
				refresh, builder.DLB("health-check-interval", "6s"), builder.DLB("health-check-timeout", "4s"),
				builder.DLB("listener-maxqps", "5"), builder.DLB("listener-idle-timeout", "9s"), recorded("DLB-health-check-timeout" + byLimits),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var policies []*policy.Policy
			if test.policy != "" {
				policies = append(policies, builder.ValidPolicy(t, ofNamespace, "limits", test.policy))
			}
			old, current := builder.Service(test.old...), builder.Service(test.current...)
			if got := policy.RefreshRequested(old, current); got != test.refresh {
				t.Errorf("a refresh is requested: %t", got)
			}
			added := own.Renew(old, current, policies, test.refresh)
			got := map[string]string{}
			for key, value := range added {
				got[builder.Short(key)] = builder.Short(value)
			}
			if test.want == nil {
				test.want = map[string]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if current.Annotations == nil {
				current.Annotations = map[string]string{}
			}
			maps.Copy(current.Annotations, added)
			if again := own.Renew(old, current, policies, test.refresh); len(again) > 0 {
				t.Errorf("a second call sets %v", again)
			}
		})
	}
}
