package doctor

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/internal/review"
)

const (
	// probeName is that of Services that are sent for a dry run.
	probeName = "quayctl-doctor"
	// badKey is refused whatever catalogs Services are judged by; see webhook/service.AnnotationProbe.
	badKey = "quaymaster.dev/probe"
	// denied begins the API server's report of a webhook's refusal.
	denied = "denied the request"
)

// admission lets the API server ask the webhooks about Services that are never stored: that proves address, TLS, authority, HTTP and
// verdict in one, as users meet them.
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
	if result := e.judgeBad(err, namespace, validate); result.Level != OK {
		return result
	}
	good, err := e.create(ctx, namespace, nil)
	return e.judgeGood(good, err, namespace)
}

// reviewed is a namespace whose Services the webhook is asked about, or the result where there is none.
func (e *examination) reviewed(ctx context.Context, w *called) (string, Result) {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return "", fail("correct webhook.namespaceSelector", "the namespaceSelector of %s: %v", w.name, err)
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
		if chosen == "" || n.Name == e.Namespace {
			chosen = n.Name
		}
	}
	if chosen == "" {
		return "", skip("webhook.namespaceSelector selects no namespace")
	}
	return chosen, Result{}
}

func (e *examination) create(ctx context.Context, namespace string, annotations map[string]string) (*corev1.Service, error) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "probe", Port: 80}}},
	}
	return e.API.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// judgeBad says what became of the bad Service: only a refusal by our webhook is right.
func (e *examination) judgeBad(err error, namespace string, w *called) Result {
	const remedy = "see the checks of Service, ca-bundle and certificate, and the logs of the webhook's pods"
	switch {
	case err == nil && w.onFailure() == string(admissionregistrationv1.Ignore):
		return fail(remedy, "a bad Service is admitted in namespace %s: no webhook answers the API server, and the failure policy is Ignore", namespace)
	case err == nil:
		return fail("see whether helm upgrade puts the rules and conditions of "+w.name+" back",
			"a bad Service is admitted in namespace %s: the API server does not ask the webhook", namespace)
	case refusedBy(err, w.name):
		return ok("refused")
	case apierrors.IsForbidden(err):
		return warn("run it as a user who may create Services in namespace "+namespace, "not tried: %v", err)
	case strings.Contains(err.Error(), "failed calling webhook"):
		return fail(remedy, "the API server cannot ask the webhook: %v", err)
	}
	return warn("remove what else refuses it, and repeat this", "something else refuses a Service in namespace %s: %v", namespace, err)
}

// judgeGood says what became of the good one: it is admitted, with the defaults of the mutating webhook. Policies, quotas and other
// people's webhooks may refuse it nevertheless, which is no fault of the installation.
func (e *examination) judgeGood(svc *corev1.Service, err error, namespace string) Result {
	const bad = "through the API server, a bad Service is refused"
	if err != nil && refusedBy(err, validateService) {
		return ok("%s, and a plain one, too, by a policy of namespace %s", bad, namespace)
	}
	if err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
		return warn("remove what else refuses it, and repeat this", "%s; something else refuses a good one in namespace %s: %v", bad, namespace, err)
	}
	if err != nil {
		return fail("see the logs of the webhook's pods", "%s, but for a good one it cannot ask: %v", bad, err)
	}
	for key := range review.Own("").Parse(&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}).WrittenDefaults() {
		if _, written := svc.Annotations[key]; !written {
			return warn("if mycloud is among the chart's catalogs, see the logs of the webhook's pods",
				"%s and a good one admitted, but without the default of %s: %s does not answer, or mycloud is not judged", bad, key, mutateService)
		}
	}
	return ok("%s and a good one admitted, with its defaults", bad)
}

// refusedBy tells whether it was a webhook's own verdict.
func refusedBy(err error, webhook string) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q %s", webhook, denied))
}
