package policy

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	engine "quaymaster.dev/internal/policy"
)

// metrics count violating Services. There is no series without any, so that what is gone leaves nothing behind.
type metrics struct{ violating *prometheus.GaugeVec }

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{violating: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quaymaster_policy_violating_services",
		Help: "Services that break a rule of a policy, by the policy and by the Services' namespace.",
	}, []string{"kind", "policy", "namespace"})}
	if err := registerer.Register(m.violating); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) set(key engine.Key, namespace string, services int) {
	if services == 0 {
		m.violating.DeleteLabelValues(key.Kind, key.Name, namespace)
		return
	}
	m.violating.WithLabelValues(key.Kind, key.Name, namespace).Set(float64(services))
}
