package holder

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

var withheld = prometheus.NewDesc("quaymaster_cloud_writes_withheld",
	"1 for the reason why this cluster may not write to the cloud, 0 for the other possible reasons.", []string{"reason"}, nil)

var _ prometheus.Collector = (*Holder)(nil)

// Describe implements prometheus.Collector.
func (h *Holder) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- withheld }

// Collect implements prometheus.Collector. It reports nothing before it is known whether the cluster may write, as in
// replicas that are not the leader.
func (h *Holder) Collect(metrics chan<- prometheus.Metric) {
	known, err := h.state()
	if !known {
		return
	}
	for _, reason := range []string{ReasonHeldByAnother, ReasonClusterID, ReasonOtherCloud} {
		value := 0.0
		if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Reason == reason {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(withheld, prometheus.GaugeValue, value, reason)
	}
}
