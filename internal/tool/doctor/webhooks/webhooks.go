// Package webhooks checks that API servers call the webhooks and trust them: their configurations, the Service and its
// DNS name, the certificate and what cert-manager does for it, and the answers to dry runs.
package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/pods"
	"quaymaster.dev/internal/tool/doctor/release"
)

// Checks are the checks of the webhooks.
type Checks struct {
	*release.Release
	// Class is the loadBalancerClass of the Services that are created as a dry run; empty for none.
	Class string
	// Resolve looks up the addresses of a host in the cluster's DNS; nil outside a cluster.
	Resolve func(ctx context.Context, host string) ([]string, error)
}

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
func (c *Checks) webhooks() []called {
	var all []called
	for i := range c.Mutating {
		injected := c.Mutating[i].Annotations[annotationInject] != ""
		for _, w := range c.Mutating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, injected})
		}
	}
	for i := range c.Validating {
		injected := c.Validating[i].Annotations[annotationInject] != ""
		for _, w := range c.Validating[i].Webhooks {
			all = append(all, called{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.NamespaceSelector, injected})
		}
	}
	return all
}

// find returns the webhook of a name, or nil.
func (c *Checks) find(name string) *called {
	for _, w := range c.webhooks() {
		if w.name == name {
			return &w
		}
	}
	return nil
}

// denies reports whether requests are denied while the webhook is unavailable.
func (w *called) denies() bool {
	return ptr.Deref(w.policy, admissionregistrationv1.Fail) == admissionregistrationv1.Fail
}

const noWebhooks = "the release does not include webhooks"

// Configurations checks that the configurations of the webhooks exist, and says what happens without the webhooks.
func (c *Checks) Configurations(context.Context) doctor.Result {
	if c.Webhook == nil && len(c.Mutating)+len(c.Validating) == 0 {
		return doctor.Skipped(noWebhooks)
	}
	var problems []string
	if len(c.Mutating) == 0 {
		problems = append(problems, "the MutatingWebhookConfiguration is missing, so no defaults are set")
	}
	if len(c.Validating) == 0 {
		problems = append(problems, "the ValidatingWebhookConfiguration is missing, so nothing is validated")
	}
	if len(c.Mutating) > 0 && c.find(mutateService) == nil {
		problems = append(problems, "webhook "+mutateService+" is missing, so Services get no defaults")
	}
	if len(c.Validating) > 0 && c.find(validateService) == nil {
		problems = append(problems, "webhook "+validateService+" is missing, so Services are not validated")
	}
	for _, w := range c.webhooks() {
		if len(w.rules) == 0 {
			problems = append(problems, "webhook "+w.name+" has no rules, so it is never called")
		}
	}
	if len(problems) > 0 {
		return doctor.Failed("restore the webhook configurations with helm upgrade", "%s", strings.Join(problems, "; "))
	}
	all := c.webhooks()
	var failing []string
	for _, w := range all {
		if w.denies() {
			failing = append(failing, w.name)
		}
	}
	found := fmt.Sprintf("%d webhooks; while they are unavailable, all requests are admitted", len(all))
	if len(failing) > 0 {
		slices.Sort(failing)
		found = fmt.Sprintf("%d webhooks; while these are unavailable, requests to them are denied: %s", len(all),
			strings.Join(failing, ", "))
	}
	return doctor.Passed("%s", found)
}

// address returns the Service or the URL at which the webhooks are called.
func (c *Checks) address() (service serviceName, url string) {
	for _, w := range c.webhooks() {
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

// Service checks that the Service at which the webhooks are called has endpoints; if not, why their pods are not ready.
func (c *Checks) Service(ctx context.Context) doctor.Result {
	if c.Webhook == nil {
		return doctor.Skipped(noWebhooks)
	}
	at, url := c.address()
	if url != "" {
		return doctor.Skipped("the webhooks are called at %s, not through a Service", url)
	}
	if at.name == "" {
		return doctor.Skipped("no webhook configuration refers to a Service")
	}
	name := at.namespace + "/" + at.name
	_, err := c.API.CoreV1().Services(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return doctor.Failed("restore it with helm upgrade", "Service %s is missing, so the API server cannot call the webhooks",
			name)
	}
	if err != nil {
		return doctor.Unread("Service "+name, err)
	}
	slices, err := c.API.DiscoveryV1().EndpointSlices(at.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + at.name})
	if err != nil {
		return doctor.Unread("endpoints of Service "+name, err)
	}
	ready, others := countEndpoints(slices.Items)
	role := c.Webhook
	if ready > 0 && (role.Template == nil || role.Ready >= role.Wanted && others == 0) {
		return doctor.Passed("Service %s has %d ready endpoints", name, ready)
	}
	found := fmt.Sprintf("Service %s has no ready endpoint, so API servers cannot call the webhooks", name)
	if ready > 0 {
		found = fmt.Sprintf("Service %s has %d ready endpoints", name, ready)
	}
	r := pods.Checks{Release: c.Release}.Running(ctx, role, found)
	switch {
	case ready == 0:
		r.Level = doctor.Fail
	case r.Level == doctor.Fail: // the endpoints are newer than the status of the Deployment
		r.Level = doctor.Warn
	}
	return r
}

func countEndpoints(slices []discoveryv1.EndpointSlice) (ready, others int) {
	for i := range slices {
		for _, endpoint := range slices[i].Endpoints {
			switch is := endpoint.Conditions; {
			case ptr.Deref(is.Terminating, false):
			case ptr.Deref(is.Ready, true):
				ready++
			default:
				others++
			}
		}
	}
	return ready, others
}

// DNS checks that the host of the Service resolves in the cluster.
func (c *Checks) DNS(ctx context.Context) doctor.Result {
	at, url := c.address()
	switch {
	case c.Webhook == nil:
		return doctor.Skipped(noWebhooks)
	case url != "" || at.name == "":
		return doctor.Skipped("the webhooks are not called through a Service")
	case c.Resolve == nil:
		return doctor.Skipped("cluster DNS can only be checked from a pod of the cluster; API servers do not need it")
	}
	host := at.name + "." + at.namespace + ".svc"
	found, err := c.Resolve(ctx, host)
	if err != nil {
		return doctor.Failed("check that the cluster's DNS pods are running", "cannot resolve %s: %v", host, err)
	}
	return doctor.Passed("%s resolves to %s", host, strings.Join(found, ", "))
}
