package server

import (
	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(descs chan<- *prometheus.Desc) {
	descs <- addressesDesc
	s.api.Backup.Describe(descs)
}

// Collect implements prometheus.Collector: a state that cannot be read has no metrics.
func (s *Server) Collect(metrics chan<- prometheus.Metric) {
	s.api.Backup.Collect(metrics)
	pools, err := addresses.UseOf(s.store)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(addressesDesc, err)
		return
	}
	for _, p := range pools {
		for state, n := range map[string]float64{
			cloudv1.AddressAssigned: float64(p.Assigned), cloudv1.AddressReserved: float64(p.Reserved),
			"free": p.Pool.Size() - float64(p.Assigned+p.Reserved),
		} {
			metrics <- prometheus.MustNewConstMetric(
				addressesDesc, prometheus.GaugeValue, n, p.Pool.Scheme, p.Pool.Prefix.String(), state)
		}
	}
}

var addressesDesc = prometheus.NewDesc(
	"mycloud_addresses", "Addresses of pools that load balancers have, that edges may still serve, and that are free.",
	[]string{"scheme", "pool", "state"}, nil,
)
