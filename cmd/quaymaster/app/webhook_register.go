package app

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/policy"
	"quaymaster.dev/webhook/service"
)

// The names of the webhooks in logs and metrics. The path of each webhook is / followed by its name; the chart's
// webhook configurations use these paths.
const (
	mutateService                     = "mutate-service"
	validateService                   = "validate-service"
	mutatePersistentVolume            = "mutate-persistentvolume"
	mutatePersistentVolumeClaim       = "mutate-persistentvolumeclaim"
	validatePersistentVolumeClaim     = "validate-persistentvolumeclaim"
	validateLoadBalancerPolicy        = "validate-loadbalancerpolicy"
	validateClusterLoadBalancerPolicy = "validate-clusterloadbalancerpolicy"
)

// served is the resource that a webhook admits, and its admitter.
type served struct {
	resource metav1.GroupVersionResource
	admitter webhook.Admitter
}

// subresources are served in addition to the resource itself. A write of a Service's status can change annotations.
var subresources = map[string]string{validateService: "status"}

// handler serves all webhooks.
func (o *webhookOptions) handler(known *facts, draining *drain) (http.Handler, error) {
	counters, err := webhook.NewMetrics(legacyregistry.Registerer())
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	mux := http.NewServeMux()
	limit := webhook.NewLimit(o.maxRequests)
	for name, s := range o.webhooks(known, counters) {
		mux.Handle("/"+name, draining.handler(webhook.NewHandler(webhook.HandlerOptions{
			Name: name, Resource: s.resource, Subresource: subresources[name], Admitter: s.admitter, Limit: limit,
			Timeout: o.requestTimeout, Metrics: counters, Clock: clock.RealClock{},
		})))
	}
	return mux, nil
}

func (o *webhookOptions) webhooks(known *facts, counters *webhook.Metrics) map[string]served {
	count := func(name string) func(finding.Finding) {
		return func(f finding.Finding) { counters.CountFinding(name, f.ID, string(f.Severity)) }
	}
	claims := func(name string) persistentvolumeclaim.Options {
		o := persistentvolumeclaim.Options{Classes: known.classes, OnFinding: count(name)}
		if known.cloud != nil {
			o.Volumes = known
		}
		return o
	}
	return map[string]served{
		mutateService: {service.Resource(), service.NewMutator(service.Options{
			Reviewer: o.reviewer, Policies: known.policies, OnFinding: count(mutateService),
		})},
		validateService: {service.Resource(), service.NewValidator(service.Options{
			Reviewer: o.reviewer, Policies: known.policies, OnFinding: count(validateService),
		})},
		mutatePersistentVolume: {persistentvolume.Resource(),
			persistentvolume.NewMutator(persistentvolume.MutatorOptions{
				Labeler: known.labeler(), Completed: o.cloudController, OnFinding: count(mutatePersistentVolume),
			})},
		mutatePersistentVolumeClaim: {
			persistentvolumeclaim.Resource(), persistentvolumeclaim.NewMutator(claims(mutatePersistentVolumeClaim)),
		},
		validatePersistentVolumeClaim: {
			persistentvolumeclaim.Resource(), persistentvolumeclaim.NewValidator(claims(validatePersistentVolumeClaim)),
		},
		validateLoadBalancerPolicy: {policy.LoadBalancerPolicies(), policy.NewValidator(policy.Options{
			Policies: known.policies, OnFinding: count(validateLoadBalancerPolicy),
		})},
		validateClusterLoadBalancerPolicy: {policy.ClusterLoadBalancerPolicies(),
			policy.NewClusterValidator(policy.Options{
				Policies: known.policies, OnFinding: count(validateClusterLoadBalancerPolicy),
			})},
	}
}
