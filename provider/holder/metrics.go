package holder

import "github.com/prometheus/client_golang/prometheus"

var heldUID = prometheus.NewDesc("quaymaster_cluster_uid_held",
	"1 if this cluster holds its UID in the cloud and may write, 0 if not.", nil, nil)

var _ prometheus.Collector = (*Holder)(nil)

// Describe implements prometheus.Collector.
func (h *Holder) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- heldUID }

// Collect implements prometheus.Collector. It reports nothing before the record has been read, as in replicas that are
// not the leader.
func (h *Holder) Collect(metrics chan<- prometheus.Metric) {
	known, err := h.state()
	if !known {
		return
	}
	value := 1.0
	if err != nil {
		value = 0
	}
	metrics <- prometheus.MustNewConstMetric(heldUID, prometheus.GaugeValue, value)
}
