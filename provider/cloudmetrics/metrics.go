// Package cloudmetrics measures what the processes ask of the cloud, and how often they need not ask.
package cloudmetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/lookup"
)

// Metrics count calls of the cloud and lookups.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lookups  *prometheus.CounterVec
}

// New registers the metrics of the cloud.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_cloud_requests_total",
			Help: "Requests to the cloud's API by operation and by HTTP status, or by why there is none.",
		}, []string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quaymaster_cloud_request_duration_seconds",
			Help: "Time until an answer of the cloud's API was read, or none was to be expected any more.",
			// A call is given up after a minute.
			Buckets: []float64{5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60},
		}, []string{"operation"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_cloud_lookups_total",
			Help: "Questions about volumes and their types, by whether the answer was remembered, asked for, or not to be had.",
		}, []string{"kind", "result"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.lookups} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Call counts a request; it is for cloudapi.Options.OnCall.
func (m *Metrics) Call(c cloudapi.Call) {
	m.requests.WithLabelValues(c.Operation, c.Code).Inc()
	m.duration.WithLabelValues(c.Operation).Observe(c.Duration.Seconds())
}

// Lookup counts a question; it is for lookup.Options.OnLookup.
func (m *Metrics) Lookup(kind lookup.Kind, result lookup.Result) {
	m.lookups.WithLabelValues(string(kind), string(result)).Inc()
}
