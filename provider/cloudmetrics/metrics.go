// Package cloudmetrics measures the requests to the cloud's API and the use of cached answers.
package cloudmetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/lookup"
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
