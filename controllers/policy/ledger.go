package policy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	engine "quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
)

// ledger remembers how every Service was judged and adds it up for every policy, so that a change costs the judgement of the
// Services that it concerns. It has no lock.
type ledger struct {
	reviewer review.Reviewer
	metrics  *metrics
	// touched is told of each policy whose sums changed.
	touched func(engine.Key)
	spaces  map[string]*space
	tallies map[engine.Key]*tally
}

// space is a namespace with Services of type LoadBalancer.
type space struct {
	applicable []*engine.Policy
	// verdicts are by the Services' names.
	verdicts map[string]*verdict
}

// verdict is how a version of a Service was judged by policies, and what it adds to their sums.
type verdict struct {
	uid        types.UID
	version    string
	applicable []*engine.Policy
	maxQPS     int64
	violations map[engine.Key]v1alpha1.Violation
}

// tally are the sums for a policy.
type tally struct {
	services, maxQPS int64
	violations       map[types.NamespacedName]v1alpha1.Violation
	// violating counts the violations of each namespace.
	violating map[string]int
}

func newLedger(reviewer review.Reviewer, m *metrics, touched func(engine.Key)) *ledger {
	return &ledger{reviewer: reviewer, metrics: m, touched: touched, spaces: map[string]*space{}, tallies: map[engine.Key]*tally{}}
}

// applicable are the policies by which the Services of a namespace were judged; ok is false if there are none to judge.
func (l *ledger) applicable(namespace string) (policies []*engine.Policy, ok bool) {
	s, ok := l.spaces[namespace]
	if !ok {
		return nil, false
	}
	return s.applicable, true
}

// namespaces are those with Services that were judged.
func (l *ledger) namespaces() []string { return slices.Collect(maps.Keys(l.spaces)) }

// services are the names of the Services of a namespace that were judged.
func (l *ledger) services(namespace string) []string {
	s := l.spaces[namespace]
	if s == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.verdicts))
}

// put judges a Service, unless the same version was judged by the same policies.
func (l *ledger) put(svc *corev1.Service, applicable []*engine.Policy) {
	s := l.spaces[svc.Namespace]
	if s == nil {
		s = &space{verdicts: map[string]*verdict{}}
		l.spaces[svc.Namespace] = s
	}
	s.applicable = applicable
	before := s.verdicts[svc.Name]
	if before != nil && before.uid == svc.UID && before.version == svc.ResourceVersion && slices.Equal(before.applicable, applicable) {
		return
	}
	after := l.examine(svc, applicable)
	s.verdicts[svc.Name] = after
	l.replace(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}, before, after)
}

// remove forgets a Service.
func (l *ledger) remove(namespace, name string) {
	s := l.spaces[namespace]
	if s == nil || s.verdicts[name] == nil {
		return
	}
	before := s.verdicts[name]
	delete(s.verdicts, name)
	if len(s.verdicts) == 0 {
		delete(l.spaces, namespace)
	}
	l.replace(types.NamespacedName{Namespace: namespace, Name: name}, before, nil)
}

func (l *ledger) examine(svc *corev1.Service, applicable []*engine.Policy) *verdict {
	v := &verdict{uid: svc.UID, version: svc.ResourceVersion, applicable: applicable}
	if len(applicable) == 0 {
		return v
	}
	parsed := l.reviewer.Default(l.reviewer.Parse(svc), applicable)
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

// replace takes one verdict on a Service out of the sums and puts another in; either may be nil.
func (l *ledger) replace(svc types.NamespacedName, before, after *verdict) {
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
		l.metrics.set(key, svc.Namespace, violating)
		l.touched(key)
	}
}

// same tells whether two verdicts add the same to the same policies.
func (v *verdict) same(other *verdict) bool {
	return v != nil && other != nil && v.maxQPS == other.maxQPS && maps.Equal(v.violations, other.violations) &&
		slices.EqualFunc(v.applicable, other.applicable, func(a, b *engine.Policy) bool { return a.Key() == b.Key() })
}

func (l *ledger) add(key engine.Key, svc types.NamespacedName, v *verdict) {
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

func (l *ledger) subtract(key engine.Key, svc types.NamespacedName, v *verdict) {
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

// sums are what a status says about Services, with the first of the violations.
func (l *ledger) sums(key engine.Key) v1alpha1.PolicyStatus {
	t := l.tallies[key]
	if t == nil {
		return v1alpha1.PolicyStatus{}
	}
	return v1alpha1.PolicyStatus{
		Services: t.services, Violating: int64(len(t.violations)), MaxQPS: t.maxQPS, Violations: first(t.violations),
	}
}
