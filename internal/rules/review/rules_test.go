package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

func TestReview(t *testing.T) {
	two := builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("api", corev1.ProtocolTCP, 443))
	tests := map[string]struct {
		rule    string
		service []builder.ServiceOption
		want    []string
	}{
		"within the limits": {
			"{annotation: DLB-listener-maxqps, min: 1, max: 20000}", []builder.ServiceOption{builder.DLB("listener-maxqps", "20000")}, nil,
		},
		"above the maximum": {
			"{annotation: DLB-listener-maxqps, max: 20000}", []builder.ServiceOption{builder.DLB("listener-maxqps", "30000")},
			[]string{`policy-max [DLB-listener-maxqps]: Invalid value: "30000": exceeds the maximum of 20000 set by LoadBalancerPolicy "limits" (tcp/80); lower the value`},
		},
		"below the minimum, with the author's message": {
			"{annotation: DLB-listener-maxqps, min: 100, message: 'Ask in #edge.'}", []builder.ServiceOption{builder.DLB("listener-maxqps", "5")},
			[]string{`policy-min [DLB-listener-maxqps]: Invalid value: "5": is below the minimum of 100 set by LoadBalancerPolicy "limits" (tcp/80); Ask in #edge.`},
		},
		"a form for a port": {
			"{annotation: DLB-listener-maxqps, max: 20000}",
			[]builder.ServiceOption{two, builder.DLB("listener-maxqps", "5"), builder.DLB("listener-maxqps.api", "30000")},
			[]string{`policy-max [DLB-listener-maxqps.api]: Invalid value: "30000": exceeds the maximum of 20000 set by LoadBalancerPolicy "limits" (tcp/443); lower the value`},
		},
		"a plain key that governs no port": {
			"{annotation: DLB-listener-maxqps, max: 20000}",
			[]builder.ServiceOption{builder.DLB("listener-maxqps", "30000"), builder.DLB("listener-maxqps.web", "5")},
			[]string{`policy-max [DLB-listener-maxqps]: Invalid value: "30000": exceeds the maximum of 20000 set by LoadBalancerPolicy "limits"; lower the value`},
		},
		"an invalid value is reported by the catalog": {
			"{annotation: DLB-listener-maxqps, max: 20000}", []builder.ServiceOption{builder.DLB("listener-maxqps", "many")}, nil,
		},
		"the default is validated": {
			"{annotation: DLB-network-type, allowed: [private], message: Only the edge team publishes.}", nil,
			[]string{`policy-allowed [DLB-network-type]: Required value: must be set: the default public must be private, as set by LoadBalancerPolicy "limits"; Only the edge team publishes.`},
		},
		"durations": {
			"{annotation: DLB-listener-idle-timeout, max: 10m}", []builder.ServiceOption{builder.DLB("listener-idle-timeout", "1h")},
			[]string{`policy-max [DLB-listener-idle-timeout]: Invalid value: "1h": exceeds the maximum of 10m set by LoadBalancerPolicy "limits" (tcp/80); lower the value`},
		},
		"another way to write an allowed value": {
			"{annotation: DLB-listener-idle-timeout, allowed: [60s, 2m]}", []builder.ServiceOption{builder.DLB("listener-idle-timeout", "1m")}, nil,
		},
		"a value that is not allowed": {
			"{annotation: DLB-scheduler, allowed: [round-robin, least-connections]}", []builder.ServiceOption{builder.DLB("scheduler", "source-ip")},
			[]string{`policy-allowed [DLB-scheduler]: Unsupported value: "source-ip": must be one of round-robin, least-connections, as set by LoadBalancerPolicy "limits" (tcp/80); use one of these`},
		},
		"elements of a list": {
			"{annotation: DLB-zones, allowed: [eu-1a, eu-1b]}", []builder.ServiceOption{builder.DLB("zones", "eu-1b,eu-1c")},
			[]string{`policy-allowed [DLB-zones]: Unsupported value: "eu-1b,eu-1c": must contain only eu-1a, eu-1b, as set by LoadBalancerPolicy "limits"; remove the other elements`},
		},
		"a pattern": {
			"{annotation: DLB-tags, pattern: '(^|,)team='}", []builder.ServiceOption{builder.DLB("tags", "owner=x")},
			[]string{`policy-pattern [DLB-tags]: Invalid value: "owner=x": must match (^|,)team=, as set by LoadBalancerPolicy "limits"; correct the value`},
		},
		"required and set": {
			"{annotation: DLB-tags, required: true}", []builder.ServiceOption{builder.DLB("tags", "team=x")}, nil,
		},
		"required and missing": {
			"{annotation: DLB-tags, required: true}", nil,
			[]string{`policy-required [DLB-tags]: Required value: must be set: required by LoadBalancerPolicy "limits"; set the annotation`},
		},
		"required and missing for one port": {
			"{annotation: DLB-listener-maxconn, required: true}", []builder.ServiceOption{two, builder.DLB("listener-maxconn.web", "5")},
			[]string{`policy-required [DLB-listener-maxconn]: Required value: must be set: required by LoadBalancerPolicy "limits" (tcp/443); set the annotation`},
		},
		"required, but without effect on the Service": {
			"{annotation: DLB-listener-tls-certificate-id, required: true}", nil, nil,
		},
		"forbidden": {
			"{annotation: DLB-load-balancer-id, forbidden: true}", []builder.ServiceOption{builder.DLB("load-balancer-id", "lb-1")},
			[]string{`policy-forbidden [DLB-load-balancer-id]: Forbidden: must not be set: forbidden by LoadBalancerPolicy "limits"; remove the key`},
		},
		"forbidden in a form for a port": {
			"{annotation: DLB-listener-maxconn, forbidden: true}", []builder.ServiceOption{builder.DLB("listener-maxconn.web", "5")},
			[]string{`policy-forbidden [DLB-listener-maxconn.web]: Forbidden: must not be set: forbidden by LoadBalancerPolicy "limits" (tcp/80); remove the key`},
		},
		"forbidden and not set": {"{annotation: DLB-network-type, forbidden: true}", nil, nil},
		"another cloud's integer": {
			"{annotation: example.com/weight, max: 10}", []builder.ServiceOption{builder.Annotation("example.com/weight", "11")},
			[]string{`policy-max [example.com/weight]: Invalid value: "11": exceeds the maximum of 10 set by LoadBalancerPolicy "limits"; lower the value`},
		},
		"another cloud's text instead of an integer": {
			"{annotation: example.com/weight, min: 1, max: 10}", []builder.ServiceOption{builder.Annotation("example.com/weight", "heavy")},
			[]string{
				`policy-max [example.com/weight]: Invalid value: "heavy": exceeds the maximum of 10 set by LoadBalancerPolicy "limits"; lower the value`,
				`policy-min [example.com/weight]: Invalid value: "heavy": is below the minimum of 1 set by LoadBalancerPolicy "limits"; raise the value`,
			},
		},
		"another cloud's key not set": {"{annotation: example.com/weight, max: 10}", nil, nil},
		"a mode with a published name": {
			"{annotation: DLB-ip-mode, allowed: [proxy], required: true}", []builder.ServiceOption{builder.DLB("hostname", "shop.example.com")}, nil,
		},
		"more values than a message lists": {
			"{annotation: example.com/tier, allowed: ['" + strings.Repeat("x", 1000) + "', '" + strings.Join(strings.Split("bcdefghijklmnopqrstuvwxyz", ""), "', '") + "']}",
			[]builder.ServiceOption{builder.Annotation("example.com/tier", "gold")},
			[]string{`policy-allowed [example.com/tier]: Unsupported value: "gold": must be one of ` + strings.Repeat("x", 128) +
				`…, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, and 6 more, as set by LoadBalancerPolicy "limits"; use one of these`},
		},
		"a value too long to be matched": {
			"{annotation: example.com/tier, pattern: gold}", []builder.ServiceOption{builder.Annotation("example.com/tier", strings.Repeat("gold", 2049))},
			[]string{`policy-pattern [example.com/tier]: Invalid value: "` + strings.Repeat("gold", 32) + `…": must match gold within 8192 bytes, as set by LoadBalancerPolicy "limits"; shorten the value`},
		},
		"keys of the DLB on a load balancer of another class": {
			"{annotation: DLB-network-type, allowed: [private]}", []builder.ServiceOption{builder.Class("example.com/lb")}, nil,
		},
		"the built-in default above the maximum": {
			"{annotation: DLB-listener-maxqps, max: 5000}",
			[]builder.ServiceOption{builder.DLB("listener-maxqps", "10000"), recorded("DLB-listener-maxqps=built-in")},
			[]string{`policy-max [DLB-listener-maxqps]: Invalid value: "10000": the built-in default exceeds the maximum of 5000 set by ` +
				`LoadBalancerPolicy "limits" (tcp/80); set the annotation, or change quaymaster.dev/refresh-defaults to get the current default`},
		},
		"another value where the built-in default was": {
			"{annotation: DLB-listener-maxqps, max: 5000}",
			[]builder.ServiceOption{builder.DLB("listener-maxqps", "9000"), recorded("DLB-listener-maxqps=built-in")},
			[]string{`policy-max [DLB-listener-maxqps]: Invalid value: "9000": exceeds the maximum of 5000 set by LoadBalancerPolicy "limits" (tcp/80); lower the value`},
		},
		"the default of another policy, with the author's message": {
			"{annotation: example.com/scheme, allowed: [internal], message: 'Ask in #edge.'}",
			[]builder.ServiceOption{builder.Annotation("example.com/scheme", "x"), recorded("example.com/scheme=ClusterLoadBalancerPolicy/shared")},
			[]string{`policy-allowed [example.com/scheme]: Unsupported value: "x": the default of ClusterLoadBalancerPolicy "shared" must be internal, as set by LoadBalancerPolicy "limits"; Ask in #edge.`},
		},
		"a default that is forbidden": {
			"{annotation: DLB-flavor, forbidden: true}",
			[]builder.ServiceOption{builder.DLB("flavor", "large"), recorded("DLB-flavor=LoadBalancerPolicy/old")},
			[]string{`policy-forbidden [DLB-flavor]: Forbidden: the default of LoadBalancerPolicy "old" must not be set: forbidden by LoadBalancerPolicy "limits"; remove the key`},
		},
		"a record that is no origin": {
			"{annotation: DLB-flavor, allowed: [small]}", []builder.ServiceOption{builder.DLB("flavor", "large"), recorded("DLB-flavor=Secret/old", "x")},
			[]string{`policy-allowed [DLB-flavor]: Unsupported value: "large": must be small, as set by LoadBalancerPolicy "limits"; write small`},
		},
		"a misspelt required key has only one finding": {
			"{annotation: DLB-tags, required: true}", []builder.ServiceOption{builder.DLB("tag", "team=x")}, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := builder.ValidPolicy(t, ofNamespace, "limits", "rules: ["+test.rule+"]")
			var got []string
			for _, f := range own.Rules(nil, own.Parse(builder.Service(test.service...)), []*policy.Policy{p}) {
				got = append(got, f.ID+" "+builder.Short(finding.Summary([]finding.Finding{f})))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReviewOfUpdates(t *testing.T) {
	limits := []*policy.Policy{builder.ValidPolicy(t, ofNamespace, "limits", "rules: [{annotation: DLB-listener-maxqps, max: 20000}]\ndefaults: {DLB-listener-maxqps: '5000'}")}
	qps := func(value string) *corev1.Service { return builder.Service(builder.DLB("listener-maxqps", value)) }
	clusterIP := qps("30000")
	clusterIP.Spec.Type = corev1.ServiceTypeClusterIP
	tests := map[string]struct {
		old, current *corev1.Service
		want         finding.Severity
	}{
		"unchanged":                   {qps("30000"), qps("30000"), finding.Warning},
		"another value":               {qps("30000"), qps("40000"), finding.Error},
		"becomes a load balancer":     {clusterIP, qps("30000"), finding.Error},
		"corrected":                   {qps("30000"), qps("20000"), ""},
		"removed, default is allowed": {qps("30000"), builder.Service(), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got finding.Severity
			for _, f := range own.Rules(test.old, own.Parse(test.current), limits) {
				got = f.Severity
			}
			if got != test.want {
				t.Errorf("severity %q, want %q", got, test.want)
			}
		})
	}
}

// The controllers apply only defaults of the DLB: an existing load balancer does not get other clouds' annotations.
func TestReviewOfUpdatesForOtherClouds(t *testing.T) {
	p := builder.ValidPolicy(t, ofNamespace, "limits", "rules: [{annotation: example.com/scheme, required: true}]\ndefaults: {example.com/scheme: internal}")
	internal := builder.Service(builder.Annotation("example.com/scheme", "internal"))
	tests := map[string]struct {
		old, current *corev1.Service
		want         finding.Severity
	}{
		"removed":                   {internal, builder.Service(), finding.Error},
		"not set before":            {builder.Service(), builder.Service(), finding.Warning},
		"created without admission": {nil, builder.Service(), finding.Error},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got finding.Severity
			for _, f := range own.Rules(test.old, own.Parse(test.current), []*policy.Policy{p}) {
				got = f.Severity
			}
			if got != test.want {
				t.Errorf("severity %q, want %q", got, test.want)
			}
		})
	}
	stored := own.Default(own.Parse(builder.Service()), []*policy.Policy{p})
	if got := policy.Validate(stored, []*policy.Policy{p}); len(got) != 1 {
		t.Errorf("got findings %v, want one about the required annotation", got)
	}
}

func BenchmarkReviewWithPolicies(b *testing.B) {
	limits := []*policy.Policy{
		builder.ValidPolicy(b, ofNamespace, "limits", "rules: [{annotation: DLB-listener-maxqps, max: 20000}, {annotation: DLB-network-type, allowed: [private, public]}]"),
		builder.ValidPolicy(b, ofCluster, "shared", "defaults: {DLB-listener-idle-timeout: 30s}"),
	}
	svc := builder.Service(builder.DLB("listener-maxqps", "5"), builder.DLB("scheduler", "source-ip"))
	for name, old := range map[string]*corev1.Service{"create": nil, "update": svc} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				own.Review(old, svc, limits)
			}
		})
	}
}

// A write of annotations that carries the address the Service just got changes nothing about the load balancer.
func TestAddressAndAnnotationTogether(t *testing.T) {
	private := builder.ValidPolicy(t, ofNamespace, "limits", "defaults: {DLB-network-type: private}")
	current := builder.Service(builder.Annotation("example.com/note", "x"))
	current.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}}
	if got := own.Review(builder.Service(), current, []*policy.Policy{private}); len(got) != 0 {
		t.Errorf("got %+v, want no findings", got)
	}
}
