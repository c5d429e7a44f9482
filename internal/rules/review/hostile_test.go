package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// hostile returns Services that Kubernetes may accept, and that are as expensive to review as possible.
func hostile() map[string]*corev1.Service {
	const dlb = "service.beta.kubernetes.io/dlb-"
	filled := func(size int, add func(i int) (key, value string)) *corev1.Service {
		svc := builder.Service()
		svc.Annotations = map[string]string{}
		for i, n := 0, 0; ; i++ {
			key, value := add(i)
			if n += len(key) + len(value); n > size {
				return svc
			}
			svc.Annotations[key] = value
		}
	}
	ports := func(svc *corev1.Service, n int) *corev1.Service {
		svc.Spec.Ports = nil
		for i := range n {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1), Protocol: "TCP"})
		}
		return svc
	}
	words := []string{"listener-maxqps", "listener-maxconn", "listener-protocol", "health-check-path", "scheduler"}
	const most, small = 255 << 10, 31 << 10
	all := map[string]*corev1.Service{
		"32 KiB of unknown ports": filled(small, func(i int) (string, string) { return fmt.Sprintf("%slistener-maxqps.%d", dlb, i), "1" }),
		"32 KiB of known ports":   ports(filled(small, func(i int) (string, string) { return fmt.Sprintf("%slistener-maxqps.%d", dlb, i+1), "1" }), 400),
		"32 KiB of several keys": ports(filled(small, func(i int) (string, string) {
			return fmt.Sprintf("%s%s.%d", dlb, words[i%len(words)], i/len(words)+1), "x"
		}), 200),
		"32 KiB of unknown keys": filled(small, func(i int) (string, string) { return fmt.Sprintf("%sx%d", dlb, i), "" }),
		"32 KiB of ports":        ports(builder.Service(builder.DLB("listener-maxqps", "1")), 500),
		"32 KiB of ranges":       builder.Service(builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", strings.Repeat("10.0.0.0/8,", small/11))),
		"unknown ports":          filled(most, func(i int) (string, string) { return fmt.Sprintf("%slistener-maxqps.%d", dlb, i), "1" }),
		"known ports":            ports(filled(most, func(i int) (string, string) { return fmt.Sprintf("%slistener-maxqps.%d", dlb, i+1), "1" }), 5000),
		"twice each port": ports(filled(most, func(i int) (string, string) {
			if i%2 == 0 {
				return fmt.Sprintf("%slistener-maxqps.%d", dlb, i/2+1), "1"
			}
			return fmt.Sprintf("%slistener-maxqps.p%d", dlb, i/2), "1"
		}), 5000),
		"forms of every key": ports(filled(most, func(i int) (string, string) {
			return fmt.Sprintf("%s%s.%d", dlb, words[i%len(words)], i/len(words)+1), "x"
		}), 2000),
		"unknown keys": filled(most, func(i int) (string, string) { return fmt.Sprintf("%sx%d", dlb, i), "" }),
		"unknown shared keys": filled(most, func(i int) (string, string) {
			return fmt.Sprintf("service.beta.kubernetes.io/load-balancer-x%d", i), ""
		}),
		"other keys":     filled(most, func(i int) (string, string) { return fmt.Sprintf("x%d", i), "" }),
		"long key":       filled(most, func(i int) (string, string) { return dlb + strings.Repeat("x", most-100), fmt.Sprint(i) }),
		"long list":      builder.Service(builder.DLB("tags", strings.Repeat("a=b,", most/4))),
		"long codes":     builder.Service(builder.DLB("health-check-http-codes", strings.Repeat("200,", most/4))),
		"ranges":         builder.Service(builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", strings.Repeat("10.0.0.0/8,", most/11))),
		"invalid ranges": builder.Service(builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", strings.Repeat(",", most-100)+"x")),
		"long value":     builder.Service(builder.DLB("scheduler", strings.Repeat("x", most))),
		"family keys": ports(filled(most, func(i int) (string, string) {
			return fmt.Sprintf("service.beta.kubernetes.io/port-%d-no-probe-rule", i), "true"
		}), 2000),
		"tls family": ports(filled(most, func(i int) (string, string) {
			return fmt.Sprintf("service.beta.kubernetes.io/linode-loadbalancer-port-%d", i+1), `{"protocol":"tcp"}`
		}), 2000),
		"many ports": ports(builder.Service(builder.DLB("listener-maxqps", "1")), 20000),
	}
	return all
}

// Validating a Service that is too large would take seconds, so that it is refused as such, and nothing is added to it.
func TestTooLargeServices(t *testing.T) {
	tests := map[string]string{
		"unknown ports": "too-many-annotations", "known ports": "too-many-annotations too-many-ports",
		"unknown keys": "too-many-annotations", "many ports": "too-many-ports", "ranges": "too-many-source-ranges", "invalid ranges": "too-many-source-ranges",
		"other keys": "",
	}
	r := review.Own("mycloud.io/dlb", true)
	services := hostile()
	for name, want := range tests {
		var ids []string
		for _, f := range r.Review(nil, services[name], nil) {
			ids = append(ids, f.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: findings %s, want %s", name, got, want)
		}
		if added := r.Defaults(services[name], nil); (len(added) == 0) != (want != "") {
			t.Errorf("%s: adds %v", name, added)
		}
		for _, f := range r.Review(services[name], services[name], nil) {
			if f.Severity == finding.Error {
				t.Errorf("%s: an update without a change has %+v", name, f)
			}
		}
	}
}

// The rules of policies that read much are cut off, with an error that no enforcement lowers: a team's own policy must
// not keep those of the cluster from being applied.
func TestWorkOfRulesIsBounded(t *testing.T) {
	const key = "example.com/note"
	expensive := &v1alpha1.LoadBalancerPolicy{Spec: v1alpha1.LoadBalancerPolicySpec{
		Rules:       []v1alpha1.Rule{{Annotation: key, Pattern: "^(a{0,990}b{0,990})$"}},
		Enforcement: v1alpha1.EnforcementAudit,
	}}
	compiled, findings := policy.Compile(expensive)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	for size, want := range map[int]bool{100: false, 4000: true} {
		svc := builder.Service(builder.Annotation(key, strings.Repeat("a", size)))
		found := false
		for _, f := range review.Own("mycloud.io/dlb", true).Review(nil, svc, []*policy.Policy{compiled}) {
			found = found || f.ID == "policy-too-long" && f.Severity == finding.Error
		}
		if found != want {
			t.Errorf("%d bytes: policy-too-long %t, want %t", size, found, want)
		}
	}
}

// A Service that is not validated completely must not become a way to store what a policy denies.
func TestIncompleteValidationIsNoLoophole(t *testing.T) {
	const note, plan = "example.com/note", "example.com/plan"
	compile := func(kind string, rules ...v1alpha1.Rule) *policy.Policy {
		p := &v1alpha1.LoadBalancerPolicy{}
		p.Name, p.Spec.Rules, p.Spec.Enforcement = kind, rules, v1alpha1.Enforcement(kind)
		compiled, findings := policy.Compile(p)
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		return compiled
	}
	policies := []*policy.Policy{
		compile("Audit", v1alpha1.Rule{Annotation: note, Pattern: "^(a{0,990}b{0,990})$"}),
		compile("Deny", v1alpha1.Rule{Annotation: plan, Allowed: []string{"gold"}}),
	}
	large := func(value string) *corev1.Service {
		svc := hostile()["unknown ports"].DeepCopy()
		svc.Annotations[plan] = value
		return svc
	}
	long := func(value string) *corev1.Service {
		return builder.Service(builder.Annotation(note, strings.Repeat("a", 8000)), builder.Annotation(plan, value))
	}
	r := review.Own("mycloud.io/dlb", true)
	for name, of := range map[string]func(string) *corev1.Service{"policy-too-long": long, "too-many-annotations": large} {
		for value, denied := range map[string]bool{"gold": false, "iron": true} {
			findings := r.Review(of("gold"), of(value), policies)
			if !slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.ID == name }) {
				t.Errorf("%s: got %+v", name, findings)
			}
			if got := len(finding.Errors(findings)) > 0; got != denied {
				t.Errorf("%s: an update to %s is denied %t, want %t", name, value, got, denied)
			}
		}
	}
	// What exceeded the limit was not validated, so that nothing of it counts as old.
	if findings := r.Review(large("iron"), builder.Service(builder.Annotation(plan, "iron")), policies); len(finding.Errors(findings)) == 0 {
		t.Error("a value that is denied counts as old")
	}
}

// Many rules about a key of thousands of listeners must not have millions of findings.
func TestFindingsOfRulesAreBounded(t *testing.T) {
	const maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"
	p := &v1alpha1.LoadBalancerPolicy{}
	for range 64 {
		p.Spec.Rules = append(p.Spec.Rules, v1alpha1.Rule{Annotation: maxQPS, Max: new(intstr.FromInt32(1))})
	}
	compiled, _ := policy.Compile(p)
	svc := hostile()["many ports"].DeepCopy()
	svc.Spec.Ports = svc.Spec.Ports[:3000]
	svc.Annotations[maxQPS] = "5"
	findings := policy.Validate(review.Own("mycloud.io/dlb", true).Parse(svc), []*policy.Policy{compiled})
	last := findings[len(findings)-1]
	if len(findings) > 10_000 || last.ID != policy.IDTooLong || last.Severity != finding.Error {
		t.Errorf("%d findings, the last is %+v", len(findings), last)
	}
}

func BenchmarkHostile(b *testing.B) {
	own, all := review.Own("mycloud.io/dlb", true), mustReviewer(b, library.BuiltIn().Names()...)
	var defaults, patterns []*policy.Policy
	compile := func(spec v1alpha1.LoadBalancerPolicySpec) *policy.Policy {
		p := &v1alpha1.LoadBalancerPolicy{Spec: spec}
		p.Name = "p"
		compiled, findings := policy.Compile(p)
		if len(finding.Errors(findings)) > 0 {
			b.Fatal(findings)
		}
		return compiled
	}
	defaults = append(defaults, compile(v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{
		"service.beta.kubernetes.io/dlb-listener-idle-timeout": "45s", "service.beta.kubernetes.io/dlb-listener-tls-certificate-id": "cert-12345678",
		"service.beta.kubernetes.io/dlb-drain-timeout": "10s", "service.beta.kubernetes.io/dlb-subnet-id": "subnet-1",
	}}))
	for i := range 10 {
		patterns = append(patterns, compile(v1alpha1.LoadBalancerPolicySpec{Rules: []v1alpha1.Rule{
			{Annotation: "service.beta.kubernetes.io/dlb-tags", Pattern: fmt.Sprintf("^(([a-z=,]*){1,15}){1,15}%d$", i)},
			{Annotation: "service.beta.kubernetes.io/dlb-listener-maxqps", Pattern: fmt.Sprintf("^(([a-z=,]*){1,15}){1,15}%d$", i)},
		}}))
	}
	for name, svc := range hostile() {
		for with, run := range map[string]func(){
			"create":          func() { own.Review(nil, svc, nil) },
			"all catalogs":    func() { all.Review(nil, svc, nil) },
			"update":          func() { own.Review(builder.Service(), svc, defaults) },
			"defaults":        func() { own.Defaults(svc, defaults) },
			"create+defaults": func() { all.Review(nil, svc, defaults) },
			"patterns":        func() { own.Review(nil, svc, patterns) },
		} {
			b.Run(name+"/"+with, func(b *testing.B) {
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func mustReviewer(tb testing.TB, names ...string) review.Reviewer {
	tb.Helper()
	r, err := review.New(catalog.Options{DefaultClass: true, Catalogs: names})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
