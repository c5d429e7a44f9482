package catalog_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// BenchmarkReview judges one Service by the catalog of its cloud, and by all of them.
func BenchmarkReview(b *testing.B) {
	svc := &corev1.Service{}
	svc.Annotations = map[string]string{
		"load-balancer.hetzner.cloud/location": "fsn1", "load-balancer.hetzner.cloud/protocol": "https",
		"load-balancer.hetzner.cloud/http-certificates": "shop", "load-balancer.hetzner.cloud/health-check-interval": "15s",
	}
	svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}
	for name, catalogs := range map[string][]string{"one": {"hcloud"}, "all": catalog.Names()} {
		b.Run(name, func(b *testing.B) {
			set, err := catalog.NewSet(catalog.Options{Catalogs: catalogs})
			if err != nil {
				b.Fatal(err)
			}
			set.Parse(svc).Validate() // reads the catalogs
			b.ReportAllocs()
			for b.Loop() {
				finding.Merge(set.Parse(svc).Validate())
			}
		})
	}
}
