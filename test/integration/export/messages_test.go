package export_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
)

// Users who apply a Service with several mistakes see all of them.
func TestDenialsTellEveryProblem(t *testing.T) {
	const prefix = "load-balancer.hetzner.cloud/"
	svc := builder.Service(
		builder.Annotation(prefix+"lokation", "fsn1"), builder.Annotation(prefix+"algorithm-type", "fastest"),
		builder.Annotation(prefix+"use-private-ip", "yes"),
	)
	svc.Namespace, svc.Name, svc.UID = "hcloud", "several", ""
	active(t, svc)
	err := cluster.Client.Create(t.Context(), svc, client.DryRunAll)
	if !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"metadata.annotations[" + prefix + "lokation]: ", "metadata.annotations[" + prefix + "algorithm-type]: Invalid value: fastest: must be ",
		"metadata.annotations[" + prefix + "use-private-ip]: Invalid value: yes: must be ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q: %v", want, err)
		}
	}
}
