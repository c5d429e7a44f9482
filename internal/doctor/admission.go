package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/internal/catalog"
)

const (
	// probeName is the name of the Services sent as dry runs.
	probeName = "quayctl-doctor"
	// badKey is an annotation that is denied whatever catalogs are enabled; see webhook/service.AnnotationProbe.
	badKey = "quaymaster.dev/probe"
	// denied is part of the API server's message when a webhook denies a request.
	denied = "denied the request"
)

// admission sends Services to the API server as dry runs, so that it calls the webhooks. This covers address, TLS, CA,
// HTTP and the response in one check, exactly as users experience them.
func (e *examination) admission(ctx context.Context) Result {
	validate := e.release.find(validateService)
	if validate == nil {
		return skip(noWebhooks)
	}
	namespace, result := e.reviewed(ctx, validate)
	if namespace == "" {
		return result
	}
	_, err := e.create(ctx, namespace, map[string]string{badKey: probeName})
	if result := e.checkBad(err, namespace, validate); result.Level != OK {
		return result
	}
	good, err := e.create(ctx, namespace, nil)
	return e.checkGood(good, err, namespace)
}

// reviewed returns a namespace whose Services are sent to the webhook, or the result of the check if there is none.
func (e *examination) reviewed(ctx context.Context, w *called) (string, Result) {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return "", fail("correct webhook.namespaceSelector in the chart's values",
			"invalid namespaceSelector of webhook %s: %v", w.name, err)
	}
	if w.selector == nil {
		selector = labels.Everything()
	}
	namespaces, err := e.API.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "", unread("namespaces", err)
	}
	chosen := ""
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		if n.DeletionTimestamp != nil {
			continue
		}
		if chosen == "" || n.Name == cmp.Or(e.Within, e.Namespace) {
			chosen = n.Name
		}
	}
	if chosen == "" {
		return "", skip("webhook.namespaceSelector selects no namespace")
	}
	return chosen, Result{}
}

func (e *examination) create(
	ctx context.Context, namespace string, annotations map[string]string,
) (*corev1.Service, error) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "probe", Port: 80}}},
	}
	if e.Class != "" {
		svc.Spec.LoadBalancerClass = &e.Class
	}
	return e.API.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// checkBad checks the response to an invalid Service. Only a denial by our webhook is correct.
func (e *examination) checkBad(err error, namespace string, w *called) Result {
	const remedy = "see the checks webhook-service, ca-bundle and certificate, and the logs of the webhook's pods"
	switch {
	case err == nil && w.onFailure() == string(admissionregistrationv1.Ignore):
		return fail(remedy, "an invalid Service was admitted in namespace %s: no webhook answers the API server, and "+
			"the failure policy is Ignore",
			namespace)
	case err == nil:
		return fail("restore the rules and match conditions of webhook "+w.name+" with helm upgrade",
			"an invalid Service was admitted in namespace %s: the API server does not call the webhook", namespace)
	case deniedBy(err, w.name):
		return ok("denied")
	case apierrors.IsForbidden(err):
		return warn("run the command as a user with permission to create Services in namespace "+namespace,
			"not checked: %v", err)
	case strings.Contains(err.Error(), "failed calling webhook"):
		return fail(remedy, "the API server cannot call the webhook: %v", err)
	}
	return warn(remedyDenied, "a Service in namespace %s was denied, but not by Quaymaster: %v", namespace, err)
}

// remedyDenied is the remedy if something other than Quaymaster denies a dry run.
const remedyDenied = "remove the cause of the denial, then run the command again"

// checkGood checks the response to a valid Service. It must be admitted with the defaults that the mutating webhook
// sets. Policies, quotas and other webhooks may deny it nevertheless, which is not a problem of the installation.
func (e *examination) checkGood(svc *corev1.Service, err error, namespace string) Result {
	const bad = "an invalid Service is denied"
	if err != nil && deniedBy(err, validateService) {
		return ok("%s; a valid one is denied by a policy of namespace %s", bad, namespace)
	}
	if err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
		return warn(remedyDenied, "%s; a valid one in namespace %s was also denied, but not by Quaymaster: %v", bad,
			namespace, err)
	}
	if err != nil {
		return fail("see the logs of the webhook's pods",
			"%s, but for a valid one the API server cannot call the webhook: %v", bad, err)
	}
	plain := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for key := range catalog.Own("", true).Parse(plain).WrittenDefaults() {
		if _, written := svc.Annotations[key]; !written {
			return warn("if the chart's value catalogs contains mycloud, see the logs of the webhook's pods",
				"%s and a valid one is admitted, but without the default of %s: %s does not answer, or catalog "+
					"mycloud is disabled",
				bad, key, mutateService)
		}
	}
	return ok("%s, and a valid one is admitted with defaults", bad)
}

// deniedBy reports whether err is a denial by the webhook itself.
func deniedBy(err error, webhook string) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q %s", webhook, denied))
}
