package service

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// progress measures how long it takes until the load balancer of a changed Service is configured and serves.
type progress struct {
	clock               clock.PassiveClock
	configured, serving prometheus.Histogram

	mu      sync.Mutex
	changes map[types.UID]*change
}

// change is what a Service asks for since some time, and how far it got.
type change struct {
	since      time.Time
	configured bool
	// effective is true if a pass wrote something because of it. Others, such as foreign annotations, are not measured.
	effective bool
}

func newProgress(r prometheus.Registerer, clock clock.PassiveClock) (*progress, error) {
	buckets := []float64{.1, .25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800}
	p := &progress{
		clock: clock, changes: map[types.UID]*change{},
		configured: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quaymaster_load_balancer_configured_seconds", Buckets: buckets,
			Help: "Time from a change of a Service until the cloud has configured its load balancer as requested.",
		}),
		serving: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quaymaster_load_balancer_serving_seconds", Buckets: buckets,
			Help: "Time from a change of a Service until its load balancer is configured and serves.",
		}),
	}
	if r == nil {
		return p, nil
	}
	for _, collector := range []prometheus.Collector{p.configured, p.serving} {
		if err := r.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return p, nil
}

// changed notes that a Service asks for something else. A change that comes before the last one is configured counts
// from the earlier one.
func (p *progress) changed(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.clock.Now()
	if before := p.changes[uid]; before != nil && !before.configured {
		since = before.since
	}
	p.changes[uid] = &change{since: since}
}

// start returns the change that a pass works on; nil if there is none.
func (p *progress) start(uid types.UID) *change {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes[uid]
}

// reached observes how far a pass brought a Service, unless the Service changed meanwhile. wrote is true if the pass
// wrote to the Service.
func (p *progress) reached(asked *change, svc *corev1.Service, wrote bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if asked == nil || p.changes[svc.UID] != asked {
		return
	}
	asked.effective = asked.effective || wrote
	if configured(svc) && !asked.effective {
		delete(p.changes, svc.UID)
		return
	}
	took := p.clock.Since(asked.since).Seconds()
	if configured(svc) && !asked.configured {
		asked.configured = true
		p.configured.Observe(took)
	}
	if serving(svc) {
		p.serving.Observe(took)
		delete(p.changes, svc.UID)
	}
}

// forget drops a Service that no longer asks for a load balancer.
func (p *progress) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.changes, uid)
}
