package app

import (
	"net/http"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/policy"
)

// The names of the webhooks in logs and metrics. The path of each webhook is / followed by its name; the chart's
// webhook configurations use these paths.
const (
	mutateService                     = "mutate-service"
	validateService                   = "validate-service"
	validateTemplate                  = "validate-template"
	mutatePersistentVolume            = "mutate-persistentvolume"
	mutatePersistentVolumeClaim       = "mutate-persistentvolumeclaim"
	validatePersistentVolumeClaim     = "validate-persistentvolumeclaim"
	validateLoadBalancerPolicy        = "validate-loadbalancerpolicy"
	validateClusterLoadBalancerPolicy = "validate-clusterloadbalancerpolicy"
)

// subresources are served in addition to the resource itself. A write of a Service's status can change annotations.
var subresources = map[string]string{validateService: "status"}

// handler serves all webhooks.
func (o *webhookOptions) handler(known *facts, services *services, draining *drain) http.Handler {
	counters := webhook.NewMetrics(legacyregistry.Registerer())
	mux := http.NewServeMux()
	limit := webhook.NewLimit(o.maxRequests)
	for name, admitter := range o.admitters(known, services) {
		mux.Handle("/"+name, draining.handler(webhook.NewHandler(webhook.HandlerOptions{
			Name: name, Admitter: admitter, Subresource: subresources[name], Timeout: o.requestTimeout, Limit: limit,
			Metrics: counters, Clock: clock.RealClock{},
		})))
	}
	return mux
}

// admitters returns what decides on the requests of each webhook.
func (o *webhookOptions) admitters(known *facts, services *services) map[string]webhook.Admitter {
	claims := persistentvolumeclaim.Options{Classes: known.classes}
	if known.cloud != nil {
		claims.Volumes = known
	}
	policies := policy.Options{Policies: known.policies}
	return map[string]webhook.Admitter{
		mutateService:    current(&services.mutator),
		validateService:  current(&services.validator),
		validateTemplate: current(&services.templateValidator),
		mutatePersistentVolume: persistentvolume.NewMutator(persistentvolume.MutatorOptions{
			Labeler: known.labeler(), Completed: o.cloudController,
		}),
		mutatePersistentVolumeClaim:       persistentvolumeclaim.NewMutator(claims),
		validatePersistentVolumeClaim:     persistentvolumeclaim.NewValidator(claims),
		validateLoadBalancerPolicy:        policy.NewValidator(policies),
		validateClusterLoadBalancerPolicy: policy.NewClusterValidator(policies),
	}
}
