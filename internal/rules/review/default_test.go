package review_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

func TestAnnotations(t *testing.T) {
	const (
		qps5000   = "defaults: {DLB-listener-maxqps: '5000'}"
		qps8000   = "defaults: {DLB-listener-maxqps: '8000'}"
		idle      = "DLB-listener-idle-timeout"
		qps       = "DLB-listener-maxqps"
		defaulted = policy.AnnotationDefaulted

		builtInIdle = idle + "=built-in"
		builtInQPS  = qps + "=built-in"
	)
	type given struct{ kind, name, spec string }
	tests := map[string]struct {
		policies []given
		service  []builder.ServiceOption
		want     map[string]string
	}{
		"no policy": {
			want: map[string]string{qps: "10000", idle: "60s", defaulted: builtInIdle + "," + builtInQPS},
		},
		"a policy overrides the built-in default": {
			policies: []given{{ofCluster, "shared", qps5000}},
			want:     map[string]string{qps: "5000", idle: "60s", defaulted: builtInIdle + "," + qps + "=ClusterLoadBalancerPolicy/shared"},
		},
		"the namespace overrides the cluster": {
			policies: []given{{ofCluster, "shared", "priority: 100\n" + qps5000}, {ofNamespace, "limits", qps8000}},
			want:     map[string]string{qps: "8000", idle: "60s", defaulted: builtInIdle + "," + qps + "=LoadBalancerPolicy/limits"},
		},
		"the higher priority wins": {
			policies: []given{{ofCluster, "a", "priority: 1\n" + qps5000}, {ofCluster, "b", "priority: 2\n" + qps8000}},
			want:     map[string]string{qps: "8000", idle: "60s", defaulted: builtInIdle + "," + qps + "=ClusterLoadBalancerPolicy/b"},
		},
		"among equals the first by name wins": {
			policies: []given{{ofCluster, "b", qps8000}, {ofCluster, "a", qps5000}},
			want:     map[string]string{qps: "5000", idle: "60s", defaulted: builtInIdle + "," + qps + "=ClusterLoadBalancerPolicy/a"},
		},
		"the Service overrides all": {
			policies: []given{{ofNamespace, "limits", qps8000}},
			service:  []builder.ServiceOption{builder.DLB("listener-maxqps", "5")},
			want:     map[string]string{idle: "60s", defaulted: builtInIdle},
		},
		"a default that breaks a rule is replaced by the next": {
			policies: []given{
				{ofCluster, "shared", "rules: [{annotation: DLB-listener-maxqps, max: 6000}]\n" + qps5000}, {ofNamespace, "limits", qps8000},
			},
			want: map[string]string{qps: "5000", idle: "60s", defaulted: builtInIdle + "," + qps + "=ClusterLoadBalancerPolicy/shared"},
		},
		"the built-in default breaks a rule": {
			policies: []given{{ofCluster, "shared", "rules: [{annotation: DLB-listener-maxqps, max: 6000}]"}},
			want:     map[string]string{idle: "60s", defaulted: builtInIdle},
		},
		"a default breaks a rule that warns": {
			policies: []given{{ofCluster, "shared", "enforcement: Warn\nrules: [{annotation: DLB-listener-maxqps, max: 6000}]"}, {ofNamespace, "limits", qps8000}},
			want:     map[string]string{idle: "60s", defaulted: builtInIdle},
		},
		"a rule with enforcement Audit changes nothing": {
			policies: []given{{ofCluster, "shared", "enforcement: Audit\nrules: [{annotation: DLB-listener-maxqps, max: 6000}]"}, {ofNamespace, "limits", qps8000}},
			want:     map[string]string{qps: "8000", idle: "60s", defaulted: builtInIdle + "," + qps + "=LoadBalancerPolicy/limits"},
		},
		"a forbidden key is not written": {
			policies: []given{{ofCluster, "shared", "rules: [{annotation: DLB-flavor, forbidden: true}]"}, {ofNamespace, "limits", "defaults: {DLB-flavor: large}"}},
			want:     map[string]string{qps: "10000", idle: "60s", defaulted: builtInIdle + "," + builtInQPS},
		},
		"defaults that do not fit the Service": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-tls-certificate-id: cert-01234567, DLB-subnet-id: subnet-1, DLB-flavor: large}"}},
			want:     map[string]string{qps: "10000", idle: "60s", "DLB-flavor": "large", defaulted: "DLB-flavor=LoadBalancerPolicy/limits," + builtInIdle + "," + builtInQPS},
		},
		"a timeout longer than the Service's interval": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-health-check-timeout: 8s}"}},
			service:  []builder.ServiceOption{builder.DLB("health-check-interval", "6s")},
			want:     map[string]string{qps: "10000", idle: "60s", defaulted: builtInIdle + "," + builtInQPS},
		},
		"defaults that require each other": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-tls-certificate-id: cert-01234567, DLB-listener-protocol: https}"}},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-listener-tls-certificate-id": "cert-01234567", "DLB-listener-protocol": "https",
				defaulted: builtInIdle + "," + builtInQPS + ",DLB-listener-protocol=LoadBalancerPolicy/limits,DLB-listener-tls-certificate-id=LoadBalancerPolicy/limits",
			},
		},
		"a default without the one that it requires": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-protocol: https}"}},
			want:     map[string]string{qps: "10000", idle: "60s", defaulted: builtInIdle + "," + builtInQPS},
		},
		"a default that does not fit does not affect others": {
			policies: []given{
				{ofNamespace, "limits", "defaults: {DLB-listener-tls-certificate-id: cert-01234567, DLB-listener-protocol: https, DLB-health-check-path: /up, DLB-health-check-protocol: http}"},
				{ofCluster, "shared", "defaults: {DLB-network-type: private, DLB-subnet-id: subnet-1}"},
			},
			service: []builder.ServiceOption{builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("dns", corev1.ProtocolUDP, 53))},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-health-check-path": "/up", "DLB-health-check-protocol": "http",
				"DLB-network-type": "private", "DLB-subnet-id": "subnet-1",
				defaulted: "DLB-health-check-path=LoadBalancerPolicy/limits,DLB-health-check-protocol=LoadBalancerPolicy/limits," + builtInIdle + "," + builtInQPS + ",DLB-network-type=ClusterLoadBalancerPolicy/shared,DLB-subnet-id=ClusterLoadBalancerPolicy/shared",
			},
		},
		"defaults that exclude each other": {
			policies: []given{
				{ofNamespace, "limits", "defaults: {DLB-health-check-timeout: 8s}"}, {ofCluster, "shared", "defaults: {DLB-health-check-interval: 7s}"},
			},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-health-check-timeout": "8s", defaulted: "DLB-health-check-timeout=LoadBalancerPolicy/limits," + builtInIdle + "," + builtInQPS,
			},
		},
		"defaults of two policies that require each other": {
			policies: []given{
				{ofNamespace, "limits", "defaults: {DLB-listener-tls-certificate-id: cert-01234567}"}, {ofCluster, "shared", "defaults: {DLB-listener-protocol: https}"},
				{ofCluster, "wrong", "defaults: {DLB-subnet-id: subnet-1}"},
			},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-listener-tls-certificate-id": "cert-01234567", "DLB-listener-protocol": "https",
				defaulted: builtInIdle + "," + builtInQPS + ",DLB-listener-protocol=ClusterLoadBalancerPolicy/shared,DLB-listener-tls-certificate-id=LoadBalancerPolicy/limits",
			},
		},
		"a default that requires one of a later policy": {
			policies: []given{
				{ofNamespace, "limits", "defaults: {DLB-health-check-path: /up, DLB-subnet-id: subnet-1}"}, {ofCluster, "shared", "defaults: {DLB-health-check-protocol: http}"},
			},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-health-check-path": "/up", "DLB-health-check-protocol": "http",
				defaulted: "DLB-health-check-path=LoadBalancerPolicy/limits,DLB-health-check-protocol=ClusterLoadBalancerPolicy/shared," + builtInIdle + "," + builtInQPS,
			},
		},
		"defaults that a check compares": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-health-check-interval: 2s, DLB-health-check-timeout: 1s, DLB-subnet-id: subnet-1}"}},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-health-check-interval": "2s", "DLB-health-check-timeout": "1s",
				defaulted: "DLB-health-check-interval=LoadBalancerPolicy/limits,DLB-health-check-timeout=LoadBalancerPolicy/limits," + builtInIdle + "," + builtInQPS,
			},
		},
		"a group that does not fit is not divided": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-tls-certificate-id: cert-01234567, DLB-listener-protocol: https}"}},
			service:  []builder.ServiceOption{builder.Ports(builder.Port("dns", corev1.ProtocolUDP, 53))},
			want:     map[string]string{qps: "10000", idle: "60s", defaulted: builtInIdle + "," + builtInQPS},
		},
		"a part of a group fits without the rest": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-health-check-path: /up, DLB-health-check-protocol: http, DLB-subnet-id: subnet-1}"}},
			service:  []builder.ServiceOption{builder.DLB("health-check-path.web", "/own"), builder.DLB("health-check-path", "/own")},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-health-check-protocol": "http", defaulted: "DLB-health-check-protocol=LoadBalancerPolicy/limits," + builtInIdle + "," + builtInQPS,
			},
		},
		"another Service's status in a copied manifest": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-network-type: private}"}},
			service: []builder.ServiceOption{func(svc *corev1.Service) {
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			}},
			want: map[string]string{
				qps: "10000", idle: "60s", "DLB-network-type": "private", defaulted: builtInIdle + "," + builtInQPS + ",DLB-network-type=LoadBalancerPolicy/limits",
			},
		},
		"another Service's origins in a copied manifest": {
			policies: []given{{ofNamespace, "limits", qps8000}},
			service: []builder.ServiceOption{
				builder.DLB("listener-maxqps", "5"), builder.DLB("listener-idle-timeout", "60s"),
				builder.Annotation(defaulted, "service.beta.kubernetes.io/dlb-listener-maxqps=LoadBalancerPolicy/limits"),
			},
			want: map[string]string{defaulted: ""},
		},
		"built-in origins in a copied manifest with other values": {
			service: []builder.ServiceOption{
				builder.DLB("listener-maxqps", "5"), builder.DLB("listener-idle-timeout", "60s"),
				recorded("DLB-listener-idle-timeout=built-in", "DLB-listener-maxqps=built-in"),
			},
			want: map[string]string{defaulted: builtInIdle},
		},
		"mistakes of the Service do not prevent defaults": {
			policies: []given{{ofNamespace, "limits", qps8000}},
			service:  []builder.ServiceOption{builder.DLB("scheduler", "fastest")},
			want:     map[string]string{qps: "8000", idle: "60s", defaulted: builtInIdle + "," + qps + "=LoadBalancerPolicy/limits"},
		},
		"another class gets only other defaults": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-maxqps: '8000', example.com/scheme: internal}"}},
			service:  []builder.ServiceOption{builder.Class("example.com/lb")},
			want:     map[string]string{"example.com/scheme": "internal", defaulted: "example.com/scheme=LoadBalancerPolicy/limits"},
		},
		"no load balancer": {
			policies: []given{{ofNamespace, "limits", qps8000}},
			service:  []builder.ServiceOption{builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP })},
			want:     map[string]string{},
		},
		"a second call adds to the recorded origins": {
			policies: []given{{ofNamespace, "limits", "defaults: {DLB-listener-maxqps: '8000', DLB-flavor: large}"}},
			service: []builder.ServiceOption{
				builder.DLB("flavor", "large"), builder.DLB("listener-idle-timeout", "60s"),
				builder.Annotation(defaulted, "service.beta.kubernetes.io/dlb-flavor=LoadBalancerPolicy/limits,example.com/gone=LoadBalancerPolicy/x"),
			},
			want: map[string]string{qps: "8000", defaulted: "DLB-flavor=LoadBalancerPolicy/limits," + qps + "=LoadBalancerPolicy/limits"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var all []*policy.Policy
			for _, g := range test.policies {
				all = append(all, builder.ValidPolicy(t, g.kind, g.name, g.spec))
			}
			svc := builder.Service(test.service...)
			before := maps.Clone(svc.Annotations)
			got := map[string]string{}
			for key, value := range own.Defaults(svc, policy.Applicable(all, "shop", nil)) {
				got[builder.Short(key)] = builder.Short(value)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("added annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, svc.Annotations); diff != "" {
				t.Errorf("the Service itself changed:\n%s", diff)
			}
			if svc.Annotations == nil {
				svc.Annotations = map[string]string{}
			}
			maps.Copy(svc.Annotations, own.Defaults(svc, policy.Applicable(all, "shop", nil)))
			if again := own.Defaults(svc, policy.Applicable(all, "shop", nil)); len(again) > 0 {
				t.Errorf("after %v, a second call adds %v", got, again)
			}
		})
	}
}

// An object may have any number of unknown keys. Searching a suggestion for each of them, for each default, took a
// webhook longer than the API server waits, which then admits the object without it.
func BenchmarkAnnotationsWithUnknownKeys(b *testing.B) {
	limits := []*policy.Policy{builder.ValidPolicy(b, ofNamespace, "limits", "defaults: {DLB-flavor: large, DLB-listener-protocol: https, DLB-subnet-id: subnet-1, DLB-health-check-path: /up}")}
	svc := builder.Service(builder.DLB("listener-maxqps", "5"))
	for i := range 3000 {
		builder.DLB(fmt.Sprintf("listener-maximum-of-something-%d", i), "x")(svc)
	}
	for b.Loop() {
		own.Defaults(svc, limits)
	}
}

func TestApplicable(t *testing.T) {
	all := []*policy.Policy{
		builder.ValidPolicy(t, ofCluster, "low", "defaults: {a/b: c}"),
		builder.ValidPolicy(t, ofCluster, "high", "priority: 5\ndefaults: {a/b: c}"),
		builder.ValidPolicy(t, ofCluster, "tier", "namespaceSelector: {matchLabels: {tier: shared}}\ndefaults: {a/b: c}"),
		builder.ValidPolicy(t, ofNamespace, "own", "defaults: {a/b: c}"),
	}
	tests := map[string]struct {
		namespace string
		labels    map[string]string
		want      string
	}{
		"own namespace":   {"shop", nil, "own high low"},
		"labelled":        {"web", map[string]string{"tier": "shared"}, "high low tier"},
		"neither of them": {"web", map[string]string{"tier": "own"}, "high low"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, p := range policy.Applicable(all, test.namespace, test.labels) {
				names = append(names, p.Key().Name)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
