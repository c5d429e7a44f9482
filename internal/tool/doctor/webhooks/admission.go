package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/tool/doctor"
)

// Refused is an annotation that is denied whatever catalogs are enabled; see webhook/service.AnnotationProbe.
const Refused = "quaymaster.dev/probe"

const (
	// probeName is the name of the Services sent as dry runs.
	probeName = "quayctl-probe"
	// denied is part of the API server's message when a webhook denies a request.
	denied = "denied the request"
)

// Admission sends Services to the API server as dry runs, so that it calls the webhooks. This covers address, TLS, CA,
// HTTP and the response in one check, exactly as users experience them.
func (c *Checks) Admission(ctx context.Context) doctor.Result {
	validate := c.find(validateService)
	if validate == nil {
		return doctor.Skipped(noWebhooks)
	}
	namespace, result := c.reviewed(ctx, validate)
	if namespace == "" {
		return result
	}
	_, err := DryRun(ctx, c.API, namespace, c.Class, map[string]string{Refused: probeName})
	if result := c.checkBad(err, namespace, validate); result.Level != doctor.OK {
		return result
	}
	good, err := DryRun(ctx, c.API, namespace, c.Class, nil)
	return c.checkGood(good, err, namespace)
}

// reviewed returns a namespace whose Services are sent to the webhook, or the result of the check if there is none.
func (c *Checks) reviewed(ctx context.Context, w *called) (string, doctor.Result) {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return "", doctor.Failed("correct webhook.namespaceSelector in the chart's values",
			"invalid namespaceSelector of webhook %s: %v", w.name, err)
	}
	if w.selector == nil {
		selector = labels.Everything()
	}
	namespaces, err := c.API.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "", doctor.Unread("namespaces", err)
	}
	chosen := ""
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		if n.DeletionTimestamp != nil {
			continue
		}
		if chosen == "" || n.Name == cmp.Or(c.Within, c.Namespace) {
			chosen = n.Name
		}
	}
	if chosen == "" {
		return "", doctor.Skipped("webhook.namespaceSelector selects no namespace")
	}
	return chosen, doctor.Result{}
}

// DryRun sends a load balancer of a class, which may be empty, to the API server as a dry run.
func DryRun(
	ctx context.Context, api kubernetes.Interface, namespace, class string, annotations map[string]string,
) (*corev1.Service, error) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "probe", Port: 80}}},
	}
	if class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
	return api.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// checkBad checks the response to an invalid Service. Only a denial by our webhook is correct.
func (c *Checks) checkBad(err error, namespace string, w *called) doctor.Result {
	const remedy = "see the checks webhook-service, ca-bundle and certificate, and the logs of the webhook's pods"
	switch {
	case err == nil && !w.denies():
		return doctor.Failed(remedy, "an invalid Service was admitted in namespace %s: no webhook answers the API server, and "+
			"the failure policy is Ignore",
			namespace)
	case err == nil:
		return doctor.Failed("restore the rules and match conditions of webhook "+w.name+" with helm upgrade",
			"an invalid Service was admitted in namespace %s: the API server does not call the webhook", namespace)
	case deniedBy(err, w.name):
		return doctor.Passed("denied")
	case apierrors.IsForbidden(err):
		return doctor.Warned("run the command as a user with permission to create Services in namespace "+namespace,
			"not checked: %v", err)
	case strings.Contains(err.Error(), "failed calling webhook"):
		return doctor.Failed(remedy, "the API server cannot call the webhook: %v", err)
	}
	return doctor.Warned(remedyDenied, "a Service in namespace %s was denied, but not by Quaymaster: %v", namespace, err)
}

// remedyDenied is the remedy if something other than Quaymaster denies a dry run.
const remedyDenied = "remove the cause of the denial, then run the command again"

// checkGood checks the response to a valid Service. It must be admitted with the defaults that the mutating webhook
// sets. Policies, quotas and other webhooks may deny it nevertheless, which is not a problem of the installation.
func (c *Checks) checkGood(svc *corev1.Service, err error, namespace string) doctor.Result {
	const bad = "an invalid Service is denied"
	if err != nil && deniedBy(err, validateService) {
		return doctor.Passed("%s; a valid one is denied by a policy of namespace %s", bad, namespace)
	}
	if err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
		return doctor.Warned(remedyDenied, "%s; a valid one in namespace %s was also denied, but not by Quaymaster: %v", bad,
			namespace, err)
	}
	if err != nil {
		return doctor.Failed("see the logs of the webhook's pods",
			"%s, but for a valid one the API server cannot call the webhook: %v", bad, err)
	}
	plain := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for key := range catalog.Own("", true).Parse(plain).WrittenDefaults() {
		if _, written := svc.Annotations[key]; !written {
			return doctor.Warned("if the chart's value catalogs contains mycloud, see the logs of the webhook's pods",
				"%s and a valid one is admitted, but without the default of %s: %s does not answer, or catalog "+
					"mycloud is disabled",
				bad, key, mutateService)
		}
	}
	return doctor.Passed("%s, and a valid one is admitted with defaults", bad)
}

// deniedBy reports whether err is a denial by the webhook itself.
func deniedBy(err error, webhook string) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q %s", webhook, denied))
}
