package app

import (
	"context"

	coreinformers "k8s.io/client-go/informers/core/v1"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/legacyregistry"

	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/review"
)

// assemblePolicies creates what needs no cloud: the store of policies, the controller of their status and the one that
// audits.
func (r *controllers) assemblePolicies(
	completed *ccmconfig.CompletedConfig, services coreinformers.ServiceInformer,
) (cloud.Assembly, *policystore.Store, error) {
	store := policystore.New(policystore.Options{
		API: r.policies, Cluster: r.api, Status: true,
	})
	reviewer := review.Own(r.config.LoadBalancerClass, r.config.DefaultClass)
	if r.withoutCloud {
		reviewer = reviewer.WithoutControllers()
	}
	status, err := policy.New(policy.Options{
		Services: services, Store: store, Status: r.policies, Reviewer: reviewer,
		Recorder: completed.EventRecorder, Registerer: legacyregistry.Registerer(),
	})
	if err != nil {
		return cloud.Assembly{}, nil, err
	}
	if err := register(status.Metrics()); err != nil {
		return cloud.Assembly{}, nil, err
	}
	auditor, err := r.newAudit(services, store)
	if err != nil {
		return cloud.Assembly{}, nil, err
	}
	return cloud.Assembly{
		Run:        map[string]func(context.Context){policy.Name: status.Run, audit.Name: auditor.Run},
		Background: store.Run,
	}, store, nil
}
