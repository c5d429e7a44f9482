package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// Services without address families cannot be in the corpus: an API server validates its cases, too, and always sets
// them.
func TestFamilies(t *testing.T) {
	const (
		collection = "networking.gke.io/ip-collection-v6"
		subnet     = "networking.gke.io/load-balancer-subnet"
		tier       = "cloud.google.com/network-tier"
		kind       = "networking.gke.io/load-balancer-type"
		wanted     = "metallb.io/loadBalancerIPs"
		addresses  = "service.beta.kubernetes.io/aws-load-balancer-ip-address-type"
	)
	ipv6, both := map[string]any{"ipFamilies": []string{"IPv6"}}, map[string]any{"ipFamilies": []string{"IPv6", "IPv4"}}
	for name, c := range map[string]struct {
		cloud       string
		annotations map[string]string
		spec        map[string]any
		want        []string
	}{
		"IPv6 prefix":                      {cloud: "gcp", annotations: map[string]string{collection: "projects/shop/v6"}, spec: ipv6},
		"prefix, dual-stack":               {cloud: "gcp", annotations: map[string]string{collection: "projects/shop/v6"}, spec: both, want: []string{"error " + collection}},
		"prefix, families unknown":         {cloud: "gcp", annotations: map[string]string{collection: "projects/shop/v6"}, want: []string{"warning " + collection}},
		"prefix and subnet":                {cloud: "gcp", annotations: map[string]string{collection: "projects/shop/v6", subnet: "shop"}, spec: ipv6, want: []string{"error " + collection}},
		"prefix, internal":                 {cloud: "gcp", annotations: map[string]string{collection: "projects/shop/v6", subnet: "shop", kind: "Internal"}, spec: ipv6, want: []string{"warning " + collection}},
		"standard tier and IPv6":           {cloud: "gcp", annotations: map[string]string{tier: "Standard"}, spec: both, want: []string{"error " + tier}},
		"premium tier and IPv6":            {cloud: "gcp", annotations: map[string]string{tier: "Premium"}, spec: both},
		"two addresses, families unknown":  {cloud: "metallb", annotations: map[string]string{wanted: "192.168.1.5,2001:db8::5"}, want: []string{"warning " + wanted}},
		"both families":                    {cloud: "aws-lbc", annotations: map[string]string{addresses: "dualstack"}, spec: both},
		"both families, only IPv4 allowed": {cloud: "aws-lbc", annotations: map[string]string{addresses: "ipv4"}, spec: both, want: []string{"error " + addresses}},
		"invalid value reported only once": {cloud: "aws-lbc", annotations: map[string]string{addresses: "DualStack"}, spec: ipv6, want: []string{"error " + addresses}},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := library.BuiltIn().Find(c.cloud)
			var got []string
			for _, f := range review(t, found, document.Example{Annotations: c.annotations, Spec: c.spec}) {
				got = append(got, string(f.Severity)+" "+f.Field[len("metadata.annotations["):len(f.Field)-1])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
