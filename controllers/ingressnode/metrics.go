package ingressnode

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the controller.
type metrics struct{ held prometheus.Gauge }

func newMetrics(registerer prometheus.Registerer) (metrics, error) {
	m := metrics{held: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quaymaster_ingress_members_held",
		Help: "Members of node groups that should leave and stay for now, because too many would leave at once.",
	})}
	if registerer == nil {
		return m, nil
	}
	if err := registerer.Register(m.held); err != nil {
		return metrics{}, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// report sets the metric to the sum over all groups.
func (m metrics) report(held map[string]int) {
	total := 0
	for _, n := range held {
		total += n
	}
	m.held.Set(float64(total))
}
