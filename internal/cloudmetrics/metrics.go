// Package cloudmetrics measures the requests to the cloud's API and the use of cached answers.
package cloudmetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// Metrics counts requests to the cloud and lookups.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lookups  *prometheus.CounterVec

	registerer prometheus.Registerer
}

// New registers the metrics of the cloud.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		registerer: registerer,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_cloud_requests_total",
			Help: "Requests to the cloud's API, by operation and by HTTP status or the reason why there is none.",
		}, []string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quaymaster_cloud_request_duration_seconds",
			Help: "Time until a response of the cloud's API was read or the request failed.",
			// Requests time out after a minute.
			Buckets: []float64{5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60},
		}, []string{"operation"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_cloud_lookups_total",
			Help: "Lookups of volumes and volume types, by kind and by result: cached (hit), read from the cloud (miss) " +
				"or unavailable.",
		}, []string{"kind", "result"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.lookups} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Call counts a request. It is meant for cloudapi.Options.OnCall.
func (m *Metrics) Call(c cloudapi.Call) {
	m.requests.WithLabelValues(c.Operation, c.Code).Inc()
	m.duration.WithLabelValues(c.Operation).Observe(c.Duration.Seconds())
}

// Lookup counts a lookup. It is meant for lookup.Options.OnLookup.
func (m *Metrics) Lookup(kind lookup.Kind, result lookup.Result) {
	m.lookups.WithLabelValues(string(kind), string(result)).Inc()
}

var (
	budgetDesc = prometheus.NewDesc("quaymaster_cloud_budget_remaining",
		"Requests that a class may send to the cloud at once; +Inf if the cloud advertises no quota.",
		[]string{"class"}, nil)
	silenceDesc = prometheus.NewDesc("quaymaster_cloud_silence_seconds",
		"Time until requests are sent again, by the quota that they use, because the cloud asked to wait; 0 if it did not.",
		[]string{"quota"}, nil)
	circuitDesc = prometheus.NewDesc("quaymaster_cloud_circuit_open",
		"1 if requests of the operation are not sent because the cloud did not respond to the last ones, otherwise 0.",
		[]string{"operation"}, nil)
	postponedDesc = prometheus.NewDesc("quaymaster_cloud_postponed_requests_total",
		"Requests to the cloud that were not sent, by class and by reason.",
		[]string{"class", "reason"}, nil)
)

// Pace registers metrics of what delays requests to the cloud. state is that of a client.
func (m *Metrics) Pace(state func() pace.State) error {
	if err := m.registerer.Register(paceCollector(state)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// paceCollector returns the current state when metrics are read.
type paceCollector func() pace.State

// Describe implements prometheus.Collector.
func (paceCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{budgetDesc, silenceDesc, circuitDesc, postponedDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c paceCollector) Collect(metrics chan<- prometheus.Metric) {
	state := c()
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	for class, left := range state.Budget {
		gauge(budgetDesc, left, string(class))
	}
	for write, left := range state.Silence {
		gauge(silenceDesc, left.Seconds(), map[bool]string{false: "read", true: "write"}[write])
	}
	for operation, open := range state.Open {
		gauge(circuitDesc, map[bool]float64{true: 1}[open], operation)
	}
	for kind, n := range state.Refused {
		metrics <- prometheus.MustNewConstMetric(
			postponedDesc, prometheus.CounterValue, float64(n), string(kind.Class), string(kind.Reason),
		)
	}
}
