package pods

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quaymaster.dev/internal/tool/doctor/release"
)

// Uncertified returns a webhook pod's explanation why it has no certificate; empty if no pod can be asked.
func (c Checks) Uncertified(ctx context.Context) string {
	_, reports := c.ask(ctx, "/readyz/certificate")
	if len(reports) == 0 {
		return ""
	}
	return "; " + reports[0]
}

// Policies asks the webhook pods whether they use policies. It returns how many could be asked, and what those report
// that do not.
func (c Checks) Policies(ctx context.Context) (asked int, reports []string) {
	return c.ask(ctx, "/policies/use")
}

// ask asks the webhook pods for one check. It returns how many answered, and the causes of those whose check fails.
func (c Checks) ask(ctx context.Context, check string) (answered int, failing []string) {
	pods, err := c.API.CoreV1().Pods(c.Namespace).List(ctx, c.Selector(release.WebhookComponent))
	if err != nil {
		return 0, nil
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" {
			continue // it has not started, so there is nothing to ask
		}
		answer, err := c.API.CoreV1().Pods(c.Namespace).ProxyGet("http", pod.Name, healthPort(pod), check, nil).DoRaw(ctx)
		if err == nil {
			answered++
			continue
		}
		// The API server answers itself, with a Status, if the user may not ask pods or the pod cannot be reached. Former
		// versions do not know every check.
		if text := plain(string(answer)); apierrors.IsInternalError(err) && text != "" && !strings.HasPrefix(string(answer), "{") {
			answered++
			failing = append(failing, "pod "+pod.Name+" reports: "+text)
		}
	}
	return answered, failing
}

// healthPort returns the port on which a pod answers probes. API servers know only numbers of pods' ports.
func healthPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "health" {
				return strconv.Itoa(int(port.ContainerPort))
			}
		}
	}
	return ""
}
