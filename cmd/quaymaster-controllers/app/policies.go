package app

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/policystore"
	"quaymaster.dev/internal/review"
)

// assemblePolicies creates what needs no cloud: the store of policies, the controller of their status and the one that
// audits. Both share an informer of load balancer Services.
func (r *controllers) assemblePolicies(
	completed *ccmconfig.CompletedConfig,
) (cloud.Assembly, *policystore.Store, error) {
	store := policystore.New(policystore.Options{
		API: r.policies, Cluster: r.api, Status: true,
	})
	services := informers.NewSharedInformerFactoryWithOptions(r.api, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.type=LoadBalancer" }),
		informers.WithTransform(cache.TransformStripManagedFields()))
	reviewer := review.Own(r.config.LoadBalancerClass, r.config.DefaultClass)
	if r.withoutCloud {
		reviewer = reviewer.WithoutControllers()
	}
	status, err := policy.New(policy.Options{
		Services: services.Core().V1().Services(), Store: store, Status: r.policies, Reviewer: reviewer,
		Recorder: completed.EventRecorder, Registerer: legacyregistry.Registerer(),
	})
	if err != nil {
		return cloud.Assembly{}, nil, err
	}
	if err := register(status.Metrics()); err != nil {
		return cloud.Assembly{}, nil, err
	}
	auditor, err := r.newAudit(services.Core().V1().Services(), store)
	if err != nil {
		return cloud.Assembly{}, nil, err
	}
	started := func(run func(context.Context)) func(context.Context) {
		return func(ctx context.Context) {
			// It is not waited for at the end: it only reads, and may sleep past the end of its context.
			services.StartWithContext(ctx)
			run(ctx)
		}
	}
	return cloud.Assembly{
		Run:        map[string]func(context.Context){policy.Name: started(status.Run), audit.Name: started(auditor.Run)},
		Background: store.Run,
	}, store, nil
}
