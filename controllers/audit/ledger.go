package audit

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// noCatalog is the label of errors outside catalogs: rules of policies, and limits.
const noCatalog = "none"

// ledger keeps what was found about every object that exists, and counts it.
type ledger struct {
	reviewed, services, policies *prometheus.Desc

	mu    sync.Mutex
	found map[policy.Key]verdict
	// unreported are the objects by namespace that are to get an Event.
	unreported map[string]sets.Set[policy.Key]
	// catalogs has every catalog that ever had an error: its series stays when there are none any more.
	catalogs sets.Set[string]
	// complete is true once every object has been reviewed: until then, there are no series.
	complete bool
}

// verdict is what was found about an object.
type verdict struct {
	// policy is the policy that was reviewed; nil for a Service.
	policy *policy.Policy
	// problems identifies the errors; 0 if there are none.
	problems uint64
	catalogs []string
}

var _ prometheus.Collector = (*ledger)(nil)

func newLedger() *ledger {
	return &ledger{
		reviewed: prometheus.NewDesc("quaymaster_reviewed_services",
			"Stored load balancer Services that are reviewed.", nil, nil),
		services: prometheus.NewDesc("quaymaster_invalid_services",
			"Stored load balancer Services that admission would deny, by the catalog of an error.", []string{"catalog"}, nil),
		policies: prometheus.NewDesc("quaymaster_invalid_policies",
			"Stored policies that admission would deny, by kind.", []string{"kind"}, nil),
		found: map[policy.Key]verdict{}, unreported: map[string]sets.Set[policy.Key]{}, catalogs: sets.New(noCatalog),
	}
}

// put replaces what was found about an object and returns what was found before.
func (l *ledger) put(key policy.Key, v verdict) (before verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.found[key]
	l.found[key] = v
	l.catalogs.Insert(v.catalogs...)
	return before
}

// remove drops an object and returns what was found about it.
func (l *ledger) remove(key policy.Key) (before verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.found[key]
	delete(l.found, key)
	return before
}

// invalid returns the objects that have errors.
func (l *ledger) invalid() []policy.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []policy.Key
	for key, v := range l.found {
		if v.problems != 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// report lets an object get an Event.
func (l *ledger) report(key policy.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unreported[key.Namespace] == nil {
		l.unreported[key.Namespace] = sets.New[policy.Key]()
	}
	l.unreported[key.Namespace].Insert(key)
}

// due returns an object of a namespace that is to get an Event, and takes it for reported.
func (l *ledger) due(namespace string) (key policy.Key, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, found = l.unreported[namespace].PopAny()
	if len(l.unreported[namespace]) == 0 {
		delete(l.unreported, namespace)
	}
	return key, found
}

// settled notes that every object has been reviewed.
func (l *ledger) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complete = true
}

// Describe implements prometheus.Collector.
func (l *ledger) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- l.reviewed
	descriptions <- l.services
	descriptions <- l.policies
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(metrics chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.complete {
		return
	}
	reviewed, services, policies := 0, map[string]int{}, map[string]int{}
	for key, v := range l.found {
		if v.policy == nil {
			reviewed++
		} else if v.problems != 0 {
			policies[key.Kind]++
		}
		for _, name := range v.catalogs {
			services[name]++
		}
	}
	gauge := func(d *prometheus.Desc, n int, label ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label...)
	}
	gauge(l.reviewed, reviewed)
	for name := range l.catalogs {
		gauge(l.services, services[name], name)
	}
	for _, kind := range []string{v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy} {
		gauge(l.policies, policies[kind], kind)
	}
}

// catalogsOf returns the catalogs of errors.
func catalogsOf(errs []finding.Finding) []string {
	names := sets.New[string]()
	for _, f := range errs {
		if f.Catalog == "" {
			names.Insert(noCatalog)
			continue
		}
		names.Insert(f.Catalog).Insert(f.AlsoCatalogs...)
	}
	return sets.List(names)
}
