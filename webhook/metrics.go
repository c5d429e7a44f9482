package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// decision is how a call ended, as metrics name it.
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

// Metrics counts calls and findings.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
}

// NewMetrics registers the metrics of admission.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_webhook_requests_total",
			Help: "Admission calls by webhook and by how they ended.",
		}, []string{"webhook", "decision"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quaymaster_webhook_request_duration_seconds",
			Help: "Time from the head of an admission call to its answer, reading of the body included.",
			// A review takes tens of microseconds; the API server gives up after seconds.
			Buckets: []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5},
		}, []string{"webhook"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quaymaster_webhook_findings_total",
			Help: "Problems found in admission calls, by webhook, rule and severity.",
		}, []string{"webhook", "rule", "severity"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.findings} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// CountFinding counts a problem that the webhook found by the rule.
func (m *Metrics) CountFinding(webhook, rule, severity string) {
	m.findings.WithLabelValues(webhook, rule, severity).Inc()
}

func (m *Metrics) observe(webhook string, d decision, elapsed time.Duration) {
	m.requests.WithLabelValues(webhook, string(d)).Inc()
	m.duration.WithLabelValues(webhook).Observe(elapsed.Seconds())
}
