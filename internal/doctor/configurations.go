package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
