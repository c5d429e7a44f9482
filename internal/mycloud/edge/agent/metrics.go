package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// Metrics are the metrics of an edge.
type Metrics struct {
	follows, others, saves, listeners, addresses, faults prometheus.Gauge
	failures                                             prometheus.Counter
	parts                                                *prometheus.GaugeVec
	duration                                             prometheus.Histogram

	accepted, refused, bytes, members, crowded, forgotten *prometheus.Desc

	mu        sync.Mutex
	counters  []cloudv1.ListenerCounter
	health    []cloudv1.MemberHealth
	overflows []config.Overflow
}

// NewMetrics returns the metrics after registering them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "mycloud_edge_" + name, Help: help})
	}
	listener := []string{"load_balancer", "listener", "family"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mycloud_edge_"+name, help, labels, nil)
	}
	m := &Metrics{
		follows:   gauge("following", "1 if the last request for changes and recent heartbeats succeeded, 0 if the edge goes on with the last state."),
		others:    gauge("other_cloud", "1 if the endpoint leads to a different cloud than that of the edge, which goes on with the last state, 0 if not."),
		saves:     gauge("state_saved", "1 if the state for the next start could be written, 0 if not."),
		listeners: gauge("listeners", "Listeners that the edge serves."),
		addresses: gauge("addresses", "Addresses that the edge answers for."),
		faults:    gauge("faults", "What the edge could not apply as the cloud wants it: listeners, members, addresses, engines."),
		parts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mycloud_edge_stuck_seconds",
			Help: "Seconds for which a part of the agent has been stuck (apply, announce), or the health of members unknown (health).",
		}, []string{"part"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mycloud_edge_apply_failures_total", Help: "States of the cloud that an engine could not apply at all.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mycloud_edge_apply_duration_seconds", Help: "Time to apply a state of the cloud.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2, 5, 10},
		}),
		accepted: desc("accepted_total", "Requests (http, https), connections (tcp) and packets (udp) that were let through.", listener...),
		refused:  desc("refused_total", "Requests, connections and packets that were refused by limits or source ranges.", listener...),
		bytes:    desc("bytes_total", "Bytes by direction; out is 0 where responses go past the edge.", append(listener, "direction")...),
		members:  desc("members", "Members that are probed, by state.", "load_balancer", "pool", "family", "state"),
		crowded: desc("share_refused_total",
			"Connections through HAProxy and nat that were refused because the address has its share.", "load_balancer", "family"),
		forgotten: desc("share_forgotten_total",
			"Packets that were forwarded, but not remembered, because the load balancer has its share of flows.",
			"load_balancer", "family"),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.follows, m.others, m.saves, m.listeners, m.addresses, m.faults, m.failures, m.parts, m.duration, traffic{m},
	} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *Metrics) following(ok bool) { m.follows.Set(truth(ok)) }
func (m *Metrics) misled(is bool)    { m.others.Set(truth(is)) }
func (m *Metrics) saved(ok bool)     { m.saves.Set(truth(ok)) }
func (m *Metrics) applyFailed()      { m.failures.Inc() }
func (m *Metrics) faulty(n int)      { m.faults.Set(float64(n)) }

func (m *Metrics) stuck(part string, took time.Duration) {
	m.parts.WithLabelValues(part).Set(took.Seconds())
}

func (m *Metrics) applied(c *config.Config, took time.Duration) {
	m.listeners.Set(float64(len(c.Listeners)))
	m.addresses.Set(float64(len(c.Addresses)))
	m.duration.Observe(took.Seconds())
}

// observe keeps what the engines report until the next time.
func (m *Metrics) observe(health []cloudv1.MemberHealth, counters []cloudv1.ListenerCounter, overflows []config.Overflow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health, m.counters, m.overflows = health, counters, overflows
}

// traffic collects what the engines have reported last.
type traffic struct{ *Metrics }

// Describe implements prometheus.Collector.
func (t traffic) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.accepted, t.refused, t.bytes, t.members, t.crowded, t.forgotten} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (t traffic) Collect(c chan<- prometheus.Metric) {
	t.mu.Lock()
	health, counters, overflows := t.health, t.counters, t.overflows
	t.mu.Unlock()
	for _, o := range overflows {
		c <- prometheus.MustNewConstMetric(t.crowded, prometheus.CounterValue, float64(o.Connections), o.LoadBalancer, o.Family)
		c <- prometheus.MustNewConstMetric(t.forgotten, prometheus.CounterValue, float64(o.Packets), o.LoadBalancer, o.Family)
	}
	for _, l := range counters {
		at := []string{l.LoadBalancerID, l.ListenerKey, l.Family}
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			c <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
		}
		count(t.accepted, l.Accepted, at...)
		count(t.refused, l.Refused, at...)
		count(t.bytes, l.BytesIn, append(at, "in")...)
		count(t.bytes, l.BytesOut, append(at, "out")...)
	}
	type pool struct{ lb, key, family, state string }
	members := map[pool]int{}
	for _, h := range health {
		members[pool{h.LoadBalancerID, h.PoolKey, h.Family, h.State}]++
	}
	for p, n := range members {
		c <- prometheus.MustNewConstMetric(t.members, prometheus.GaugeValue, float64(n), p.lb, p.key, p.family, p.state)
	}
}
