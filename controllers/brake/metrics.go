package brake

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"quaymaster.dev/internal/kube/brakes"
)

var engagedBrakes = prometheus.NewDesc("quaymaster_brake_engaged",
	"1 if the brake stops its work, 0 if not.", []string{"brake"}, nil)

var _ prometheus.Collector = (*Book)(nil)

// Describe implements prometheus.Collector.
func (b *Book) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- engagedBrakes }

// Collect implements prometheus.Collector. It reports nothing as long as the record has not been read, as in replicas
// that are not the leader.
func (b *Book) Collect(metrics chan<- prometheus.Metric) {
	cm := b.current()
	if cm == nil {
		return
	}
	names := brakes.Names(cm)
	for _, doc := range brakes.All() {
		names = append(names, doc.Name)
	}
	b.mu.Lock()
	names = slices.AppendSeq(names, maps.Keys(b.unstored))
	b.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value := 0.0
		if _, _, engaged := b.Engaged(name); engaged {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(engagedBrakes, prometheus.GaugeValue, value, name)
	}
}
