package pods

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quaymaster.dev/internal/tool/doctor/release"
)

// Uncertified returns a webhook pod's explanation why it has no certificate; empty if no pod can be asked.
func (c Checks) Uncertified(ctx context.Context) string {
	pods, err := c.API.CoreV1().Pods(c.Namespace).List(ctx, c.Selector(release.WebhookComponent))
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" {
			continue // it has not started, so there is nothing to ask
		}
		answer, err := c.API.CoreV1().Pods(c.Namespace).ProxyGet("http", pod.Name, healthPort(pod),
			"/readyz/certificate", nil).DoRaw(ctx)
		// The API server itself answers users without the permission to ask pods.
		if text := plain(string(answer)); err != nil && !apierrors.IsForbidden(err) && text != "" {
			return "; pod " + pod.Name + " reports: " + strings.TrimPrefix(text, "internal server error: ")
		}
	}
	return ""
}

// healthPort returns the name of the port on which a pod answers probes.
func healthPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "health" {
				return "health"
			}
		}
	}
	return ""
}
