package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The webhooks that Services depend on.
const (
	mutateService   = "mutate.service.quaymaster.dev"
	validateService = "validate.service.quaymaster.dev"
)

// called is what the two kinds of webhooks have in common.
type called struct {
	name     string
	client   admissionregistrationv1.WebhookClientConfig
	rules    []admissionregistrationv1.RuleWithOperations
	policy   *admissionregistrationv1.FailurePolicyType
	selector *metav1.LabelSelector
}

// webhooks are those of both configurations.
func (r *release) webhooks() []called {
	var all []called
	for i := range r.mutating {
		for _, w := range r.mutating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector})
		}
	}
	for i := range r.validating {
		for _, w := range r.validating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector})
		}
	}
	return all
}

// find is the webhook of a name, or nil.
func (r *release) find(name string) *called {
	for _, w := range r.webhooks() {
		if w.name == name {
			return &w
		}
	}
	return nil
}

// onFailure is what happens when the webhook does not answer.
func (c *called) onFailure() string {
	if c.policy == nil {
		return string(admissionregistrationv1.Fail)
	}
	return string(*c.policy)
}

const noWebhooks = "the release has no webhooks"

func (e *examination) configurations(context.Context) Result {
	r := &e.release
	if r.webhook == nil && len(r.mutating)+len(r.validating) == 0 {
		return skip(noWebhooks)
	}
	var problems []string
	if len(r.mutating) == 0 {
		problems = append(problems, "there is no MutatingWebhookConfiguration, so defaults are not written")
	}
	if len(r.validating) == 0 {
		problems = append(problems, "there is no ValidatingWebhookConfiguration, so nothing is refused")
	}
	if len(r.mutating) > 0 && r.find(mutateService) == nil {
		problems = append(problems, "no webhook "+mutateService)
	}
	if len(r.validating) > 0 && r.find(validateService) == nil {
		problems = append(problems, "no webhook "+validateService)
	}
	for _, w := range r.webhooks() {
		if len(w.rules) == 0 {
			problems = append(problems, w.name+" has no rules, so it is never called")
		}
	}
	if len(problems) > 0 {
		return fail("put them back with helm upgrade", "%s", strings.Join(problems, "; "))
	}
	all := r.webhooks()
	var failing []string
	for _, w := range all {
		if w.onFailure() == string(admissionregistrationv1.Fail) {
			failing = append(failing, w.name)
		}
	}
	found := fmt.Sprintf("%d webhooks; while they do not answer, all requests are admitted", len(all))
	if len(failing) > 0 {
		slices.Sort(failing)
		found = fmt.Sprintf("%d webhooks; while they do not answer, refused is what asks %s", len(all), strings.Join(failing, ", "))
	}
	return ok("%s", found)
}

// address is where webhooks are called: at a Service, or at a URL.
func (r *release) address() (service serviceName, url string) {
	for _, w := range r.webhooks() {
		if w.client.URL != nil {
			return serviceName{}, *w.client.URL
		}
		if s := w.client.Service; s != nil {
			return serviceName{s.Namespace, s.Name}, ""
		}
	}
	return serviceName{}, ""
}

// serviceName is the namespace and name of a Service.
type serviceName struct{ namespace, name string }

func (e *examination) service(ctx context.Context) Result {
	if e.release.webhook == nil {
		return skip(noWebhooks)
	}
	at, url := e.release.address()
	if url != "" {
		return skip("the webhooks are called at %s, not at a Service", url)
	}
	if at.name == "" {
		return skip("no webhook configuration names a Service")
	}
	name := at.namespace + "/" + at.name
	_, err := e.API.CoreV1().Services(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fail("put it back with helm upgrade", "Service %s, which the configurations call, is missing", name)
	}
	if err != nil {
		return unread("Service "+name, err)
	}
	slices, err := e.API.DiscoveryV1().EndpointSlices(at.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + at.name})
	if err != nil {
		return unread("endpoints of Service "+name, err)
	}
	ready, others := countEndpoints(slices.Items)
	if ready == 0 {
		return fail("see why with kubectl --namespace "+e.Namespace+" describe pods, and in their logs",
			"Service %s has no ready endpoint, %d that are not: %s", name, others, e.pods(ctx))
	}
	if others > 0 {
		return warn("see kubectl --namespace "+e.Namespace+" get pods", "Service %s has %d ready endpoints, %d that are not: %s",
			name, ready, others, e.pods(ctx))
	}
	return ok("Service %s has %d ready endpoints", name, ready)
}

func countEndpoints(slices []discoveryv1.EndpointSlice) (ready, others int) {
	for i := range slices {
		for _, endpoint := range slices[i].Endpoints {
			switch c := endpoint.Conditions; {
			case c.Terminating != nil && *c.Terminating:
			case c.Ready == nil || *c.Ready:
				ready++
			default:
				others++
			}
		}
	}
	return ready, others
}

// pods tells why the webhooks' pods are not ready.
func (e *examination) pods(ctx context.Context) string {
	pods, err := e.API.CoreV1().Pods(e.Namespace).List(ctx, e.selector(webhookComponent))
	if err != nil {
		return err.Error()
	}
	var reasons []string
	for i := range pods.Items {
		if reason := notReady(&pods.Items[i]); reason != "" {
			reasons = append(reasons, "pod "+pods.Items[i].Name+": "+reason)
		}
	}
	if len(pods.Items) == 0 {
		return "there are no pods"
	}
	return strings.Join(reasons, "; ")
}

// notReady tells why a pod is not ready, as near to the cause as its status says, or nothing.
func notReady(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
		if t := c.LastTerminationState.Terminated; t != nil && !c.Ready {
			return fmt.Sprintf("ended with exit code %d: %s", t.ExitCode, strings.TrimSpace(t.Message))
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.ContainersReady, corev1.PodReady} {
		for _, c := range pod.Status.Conditions {
			if c.Type == kind && c.Status != corev1.ConditionTrue {
				return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
			}
		}
	}
	return ""
}

func (e *examination) dns(ctx context.Context) Result {
	at, url := e.release.address()
	switch {
	case e.release.webhook == nil:
		return skip(noWebhooks)
	case url != "" || at.name == "":
		return skip("the webhooks are not called at a Service")
	case e.Resolve == nil:
		return skip("only pods of the cluster can ask its DNS; API servers do without it")
	}
	host := at.name + "." + at.namespace + ".svc"
	found, err := e.Resolve(ctx, host)
	if err != nil {
		return fail("see whether the cluster's DNS pods run", "look up %s: %v", host, err)
	}
	return ok("%s is %s", host, strings.Join(found, ", "))
}
