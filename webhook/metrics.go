package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// decision is the outcome of a request, as in the metrics' label.
type decision string

const (
	decisionAllowed    decision = "allowed"
	decisionPatched    decision = "patched"
	decisionDenied     decision = "denied"
	decisionMalformed  decision = "malformed"
	decisionOverloaded decision = "overloaded"
	decisionTimeout    decision = "timeout"
	decisionFailed     decision = "failed"
)

// Metrics counts requests and findings.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
}

// NewMetrics registers the admission metrics. It panics if the registerer already has them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	create := promauto.With(registerer)
	return &Metrics{
		requests: create.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_webhook_requests_total",
			Help: "Admission requests by webhook and decision.",
		}, []string{"webhook", "decision"}),
		duration: create.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quaymaster_webhook_request_duration_seconds",
			Help: "Time from the headers of an admission request to its response, including reading the body.",
			// A request takes tens of microseconds; the API server gives up after seconds.
			Buckets: []float64{
				50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5,
			},
		}, []string{"webhook"}),
		findings: create.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_webhook_findings_total",
			Help: "Findings in admission requests by webhook, finding id (label rule) and severity.",
		}, []string{"webhook", "rule", "severity"}),
	}
}

func (m *Metrics) observe(webhook string, d decision, elapsed time.Duration) {
	m.requests.WithLabelValues(webhook, string(d)).Inc()
	m.duration.WithLabelValues(webhook).Observe(elapsed.Seconds())
}
