// Package availability_test removes or replaces parts of a running installation on a real API server, with the chart's
// default settings, and checks that users do not notice.
package availability_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/test/harness/env"
)

// podOf returns the pod of one of the chart's Deployments.
func podOf(t *testing.T, name string) corev1.PodSpec {
	t.Helper()
	objects, err := env.RenderChart(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" || object.GetName() != name {
			continue
		}
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			t.Fatal(err)
		}
		return deployment.Spec.Template.Spec
	}
	t.Fatalf("the chart has no Deployment %s", name)
	return corev1.PodSpec{}
}

// flags returns the flags of a pod's first container that begin with a prefix. There must be at least one.
func flags(t *testing.T, pod corev1.PodSpec, prefix string) []string {
	t.Helper()
	var found []string
	for _, arg := range pod.Containers[0].Args {
		if strings.HasPrefix(arg, prefix) {
			found = append(found, arg)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the chart says nothing about %s", prefix)
	}
	return found
}
