package catalog

import (
	"testing"

	"quaymaster.dev/internal/rules"
)

// Kubernetes itself defined the key, and most clouds read it: it tells nothing about which cloud a Service is for.
func TestDetectIgnoresKubernetesOwnKey(t *testing.T) {
	svc := balancer(map[string]string{"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8"})
	if got := Detect(svc); len(got) > 0 {
		t.Errorf("it seems to be for %q", got)
	}
}

func TestUnknownKeyIsNearAnAlias(t *testing.T) {
	set := setOf(Body{Annotations: []Annotation{{Name: "other/size", Aliases: []string{"sample/size"}, Type: Type{Type: Int}}}})
	found := set.Review(nil, balancer(map[string]string{"sample/sise": "1"}))
	want := "the key must be one that Sample reads; the nearest is sample/size"
	if len(found) != 1 || found[0].Severity != rules.Error || found[0].Message != want {
		t.Errorf("found %+v", found)
	}
}
