// Package installation builds what the checks of quayctl doctor examine: a release of the chart, and its pods.
package installation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"quaymaster.dev/internal/tool/doctor/release"
)

// Namespace is the namespace of the release, and its name.
const Namespace = "quay"

// Noon is what all clocks show.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// New returns a release in a cluster, whose pods run with the arguments.
func New(cluster kubernetes.Interface, args ...string) *release.Release {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: args}}}}
	return &release.Release{
		API: cluster, Clock: clocktesting.NewFakePassiveClock(Noon), Namespace: Namespace, Name: Namespace,
		Webhook:     &release.Role{Component: release.WebhookComponent, Account: "quay-webhook", Template: template},
		Controllers: &release.Role{Component: release.ControllersComponent, Account: "quay-controllers", Template: template},
	}
}

// Pod returns a pod of a component on a Node.
func Pod(component, name string, status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID(name), Labels: map[string]string{
			release.LabelName: "quaymaster", release.LabelInstance: Namespace, release.LabelComponent: component,
		}},
		Spec: corev1.PodSpec{NodeName: "a"}, Status: status,
	}
}
