package policy

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
)

// ledger keeps the result of every Service and the sums for every policy, so that a change only costs the validation of
// the Services that it concerns. It has no lock.
type ledger struct {
	reviewer review.Reviewer
	// violating counts the violating Services of each policy and namespace.
	violating *prometheus.GaugeVec
	// touched is called for each policy whose sums changed.
	touched func(engine.Key)
	spaces  map[string]*space
	tallies map[engine.Key]*tally
}

// space is a namespace that has Services of type LoadBalancer.
type space struct {
	applicable []*engine.Policy
	// results are the results by the names of the Services.
	results map[string]*result
}

// result is the result of validating a version of a Service against policies: what it adds to their sums.
type result struct {
	uid        types.UID
	version    string
	applicable []*engine.Policy
	maxQPS     int64
	violations map[engine.Key]v1alpha1.Violation
}

// tally holds the sums for a policy.
type tally struct {
	services, maxQPS int64
	violations       map[types.NamespacedName]v1alpha1.Violation
	// violating counts the violating Services of each namespace.
	violating map[string]int
}

func newLedger(reviewer review.Reviewer, violating *prometheus.GaugeVec, touched func(engine.Key)) *ledger {
	return &ledger{
		reviewer: reviewer, violating: violating, touched: touched,
		spaces: map[string]*space{}, tallies: map[engine.Key]*tally{},
	}
}

// applicable returns the policies that the Services of a namespace were validated against; ok is false if it has no
// Services.
func (l *ledger) applicable(namespace string) (policies []*engine.Policy, ok bool) {
	s, ok := l.spaces[namespace]
	if !ok {
		return nil, false
	}
	return s.applicable, true
}

// namespaces returns the namespaces that have Services.
func (l *ledger) namespaces() []string { return slices.Collect(maps.Keys(l.spaces)) }

// services returns the names of the Services of a namespace.
func (l *ledger) services(namespace string) []string {
	s := l.spaces[namespace]
	if s == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.results))
}

// put validates a Service unless this version was already validated against the same policies.
func (l *ledger) put(svc *corev1.Service, applicable []*engine.Policy) {
	s := l.spaces[svc.Namespace]
	if s == nil {
		s = &space{results: map[string]*result{}}
		l.spaces[svc.Namespace] = s
	}
	s.applicable = applicable
	before := s.results[svc.Name]
	if before != nil && before.uid == svc.UID && before.version == svc.ResourceVersion &&
		slices.Equal(before.applicable, applicable) {
		return
	}
	after := l.validate(svc, applicable)
	s.results[svc.Name] = after
	l.replace(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}, before, after)
}

// remove drops a Service.
func (l *ledger) remove(namespace, name string) {
	s := l.spaces[namespace]
	if s == nil || s.results[name] == nil {
		return
	}
	before := s.results[name]
	delete(s.results, name)
	if len(s.results) == 0 {
		delete(l.spaces, namespace)
	}
	l.replace(types.NamespacedName{Namespace: namespace, Name: name}, before, nil)
}

func (l *ledger) validate(svc *corev1.Service, applicable []*engine.Policy) *result {
	v := &result{uid: svc.UID, version: svc.ResourceVersion, applicable: applicable}
	if len(applicable) == 0 {
		return v
	}
	applicable = engine.Open(applicable)
	parsed := l.reviewer.Default(l.reviewer.Parse(svc), applicable)
	if catalogs, selected := engine.Catalogs(applicable); selected {
		parsed = parsed.WithAliases(catalogs)
	}
	if own := parsed.Own(); own != nil {
		v.maxQPS = loadbalancer.MaxQPS(own)
	}
	for _, p := range applicable {
		findings := finding.Merge(engine.Validate(parsed, []*engine.Policy{p}))
		if len(findings) == 0 {
			continue
		}
		if v.violations == nil {
			v.violations = map[engine.Key]v1alpha1.Violation{}
		}
		v.violations[p.Key()] = violation(svc, findings[0])
	}
	return v
}

// replace subtracts one result of a Service from the sums and adds another; either may be nil.
func (l *ledger) replace(svc types.NamespacedName, before, after *result) {
	if before.same(after) {
		return
	}
	changed := map[engine.Key]bool{}
	if before != nil {
		for _, p := range before.applicable {
			l.subtract(p.Key(), svc, before)
			changed[p.Key()] = true
		}
	}
	if after != nil {
		for _, p := range after.applicable {
			l.add(p.Key(), svc, after)
			changed[p.Key()] = true
		}
	}
	for key := range changed {
		violating := 0
		if t := l.tallies[key]; t != nil {
			violating = t.violating[svc.Namespace]
			if t.services == 0 {
				delete(l.tallies, key)
			}
		}
		if violating == 0 {
			l.violating.DeleteLabelValues(key.Kind, key.Name, svc.Namespace)
		} else {
			l.violating.WithLabelValues(key.Kind, key.Name, svc.Namespace).Set(float64(violating))
		}
		l.touched(key)
	}
}

// same reports whether two results add the same to the same policies.
func (v *result) same(other *result) bool {
	return v != nil && other != nil && v.maxQPS == other.maxQPS && maps.Equal(v.violations, other.violations) &&
		slices.EqualFunc(v.applicable, other.applicable, func(a, b *engine.Policy) bool { return a.Key() == b.Key() })
}

func (l *ledger) add(key engine.Key, svc types.NamespacedName, v *result) {
	t := l.tallies[key]
	if t == nil {
		t = &tally{violations: map[types.NamespacedName]v1alpha1.Violation{}, violating: map[string]int{}}
		l.tallies[key] = t
	}
	t.services++
	t.maxQPS += v.maxQPS
	if violation, ok := v.violations[key]; ok {
		t.violations[svc] = violation
		t.violating[svc.Namespace]++
	}
}

func (l *ledger) subtract(key engine.Key, svc types.NamespacedName, v *result) {
	t := l.tallies[key]
	t.services--
	t.maxQPS -= v.maxQPS
	if _, ok := v.violations[key]; ok {
		delete(t.violations, svc)
		if t.violating[svc.Namespace]--; t.violating[svc.Namespace] == 0 {
			delete(t.violating, svc.Namespace)
		}
	}
}

// sums returns the part of a status that is about Services, with the first violations.
func (l *ledger) sums(key engine.Key) v1alpha1.PolicyStatus {
	t := l.tallies[key]
	if t == nil {
		return v1alpha1.PolicyStatus{}
	}
	return v1alpha1.PolicyStatus{
		Services: t.services, Violating: int64(len(t.violations)), MaxQPS: t.maxQPS, Violations: first(t.violations),
	}
}

// newViolating returns the metric that counts violating Services. A series exists only while its count is not 0, so that
// deleted policies leave none behind.
func newViolating() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quaymaster_policy_violating_services",
		Help: "Services that break a rule of a policy, by policy and by namespace of the Services.",
	}, []string{"kind", "policy", "namespace"})
}
