package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The webhooks for Services.
const (
	mutateService   = "mutate.service.quaymaster.dev"
	validateService = "validate.service.quaymaster.dev"
)

// called holds what validating and mutating webhooks have in common.
type called struct {
	name     string
	client   admissionregistrationv1.WebhookClientConfig
	rules    []admissionregistrationv1.RuleWithOperations
	policy   *admissionregistrationv1.FailurePolicyType
	selector *metav1.LabelSelector
	// injected is true if cainjector is asked to write the CA bundle.
	injected bool
}

// annotationInject is the annotation of webhook configurations that names the Certificate whose CA cainjector writes.
const annotationInject = "cert-manager.io/inject-ca-from"

// webhooks returns the webhooks of both configurations.
func (r *release) webhooks() []called {
	var all []called
	for i := range r.mutating {
		injected := r.mutating[i].Annotations[annotationInject] != ""
		for _, w := range r.mutating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, injected})
		}
	}
	for i := range r.validating {
		injected := r.validating[i].Annotations[annotationInject] != ""
		for _, w := range r.validating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, injected})
		}
	}
	return all
}

// find returns the webhook of a name, or nil.
func (r *release) find(name string) *called {
	for _, w := range r.webhooks() {
		if w.name == name {
			return &w
		}
	}
	return nil
}

// onFailure returns the failure policy of the webhook.
func (c *called) onFailure() string {
	if c.policy == nil {
		return string(admissionregistrationv1.Fail)
	}
	return string(*c.policy)
}

const noWebhooks = "the release does not include webhooks"

func (e *examination) configurations(context.Context) Result {
	r := &e.release
	if r.webhook == nil && len(r.mutating)+len(r.validating) == 0 {
		return skip(noWebhooks)
	}
	var problems []string
	if len(r.mutating) == 0 {
		problems = append(problems, "the MutatingWebhookConfiguration is missing, so no defaults are set")
	}
	if len(r.validating) == 0 {
		problems = append(problems, "the ValidatingWebhookConfiguration is missing, so nothing is validated")
	}
	if len(r.mutating) > 0 && r.find(mutateService) == nil {
		problems = append(problems, "webhook "+mutateService+" is missing, so Services get no defaults")
	}
	if len(r.validating) > 0 && r.find(validateService) == nil {
		problems = append(problems, "webhook "+validateService+" is missing, so Services are not validated")
	}
	for _, w := range r.webhooks() {
		if len(w.rules) == 0 {
			problems = append(problems, "webhook "+w.name+" has no rules, so it is never called")
		}
	}
	if len(problems) > 0 {
		return fail("restore the webhook configurations with helm upgrade", "%s", strings.Join(problems, "; "))
	}
	all := r.webhooks()
	var failing []string
	for _, w := range all {
		if w.onFailure() == string(admissionregistrationv1.Fail) {
			failing = append(failing, w.name)
		}
	}
	found := fmt.Sprintf("%d webhooks; while they are unavailable, all requests are admitted", len(all))
	if len(failing) > 0 {
		slices.Sort(failing)
		found = fmt.Sprintf("%d webhooks; while these are unavailable, requests to them are denied: %s", len(all),
			strings.Join(failing, ", "))
	}
	return ok("%s", found)
}

// address returns the Service or the URL at which the webhooks are called.
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
		return skip("the webhooks are called at %s, not through a Service", url)
	}
	if at.name == "" {
		return skip("no webhook configuration refers to a Service")
	}
	name := at.namespace + "/" + at.name
	_, err := e.API.CoreV1().Services(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fail("restore it with helm upgrade", "Service %s is missing, so the API server cannot call the webhooks",
			name)
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
	role := e.release.webhook
	if ready > 0 && (role.template == nil || role.ready >= role.wanted && others == 0) {
		return ok("Service %s has %d ready endpoints", name, ready)
	}
	found := fmt.Sprintf("Service %s has no ready endpoint, so API servers cannot call the webhooks", name)
	if ready > 0 {
		found = fmt.Sprintf("Service %s has %d ready endpoints", name, ready)
	}
	r := e.running(ctx, role, found)
	switch {
	case ready == 0:
		r.Level = Fail
	case r.Level == Fail: // the endpoints are newer than the status of the Deployment
		r.Level = Warn
	}
	return r
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

func (e *examination) dns(ctx context.Context) Result {
	at, url := e.release.address()
	switch {
	case e.release.webhook == nil:
		return skip(noWebhooks)
	case url != "" || at.name == "":
		return skip("the webhooks are not called through a Service")
	case e.Resolve == nil:
		return skip("cluster DNS can only be checked from a pod of the cluster; API servers do not need it")
	}
	host := at.name + "." + at.namespace + ".svc"
	found, err := e.Resolve(ctx, host)
	if err != nil {
		return fail("check that the cluster's DNS pods are running", "cannot resolve %s: %v", host, err)
	}
	return ok("%s resolves to %s", host, strings.Join(found, ", "))
}
