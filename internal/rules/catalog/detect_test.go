package catalog

import (
	"slices"
	"strings"
	"testing"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// Kubernetes itself defines the key, and most clouds read it: it does not show which cloud a Service is for.
func TestDetectIgnoresKubernetesOwnKey(t *testing.T) {
	svc := balancer(map[string]string{"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8"})
	if got := library.BuiltIn().Detect(svc); len(got) > 0 {
		t.Errorf("detected %q", got)
	}
}

// A Service with a typo under a shared prefix must still belong to a catalog. Otherwise, the typo would not be
// reported.
func TestDetectRecognisesTypos(t *testing.T) {
	for key, want := range map[string][]string{
		"service.kubernetes.io/qcloud-loadbalancer-internal-subnet-id": {"tencent"},
		"kubernetes.digitalocean.com/load-balancer-idd":                {"digitalocean"},
		"service.kubernetes.io/topology-mode":                          nil,
		"service.beta.kubernetes.io/load-balancer-source-range":        nil,
		"service.beta.kubernetes.io/azure-load-balancer-internl":       {"azure"},
		"service.kubernetes.io/azure-load-balancer-internal":           {"azure"},
		"load-balancer.io/name":                                        nil,
		"kubernetes.io/qcloud-loadbalancer-internal-subnetid":          nil,
		"metallb.org/address-pool":                                     {"metallb"},
		"metallb.org/something-new":                                    nil,
		"clustermesh.cilium.io/global":                                 nil,
		"service.kubernetes.io/load-balancer-source-ranges":            nil,
		"prometheus.io/scrape":                                         nil,
		strings.Repeat("metallb.", 31) + "org/address-pool":            {"metallb"},
		strings.Repeat("metallb.", 32) + "org/address-pool":            nil, // longer than a domain may be
	} {
		if got := library.BuiltIn().Detect(balancer(map[string]string{key: "true"})); !slices.Equal(got, want) {
			t.Errorf("%s: detected %q, want %q", key, got, want)
		}
	}
}

func TestUnknownKeyIsNearAnAlias(t *testing.T) {
	set := setOf(document.Body{Annotations: []document.Annotation{{Name: "other/size", Aliases: []string{"sample/size"}, Type: annotation.Type{Type: annotation.Int}}}})
	found := reviewed(set, nil, balancer(map[string]string{"sample/sise": "1"}))
	want := `did you mean "sample/size"?`
	if len(found) != 1 || found[0].Severity != finding.Error || found[0].Remedy != want {
		t.Errorf("got %+v", found)
	}
}
