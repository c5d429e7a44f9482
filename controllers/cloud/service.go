package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
)

// serviceController starts the app's service controller so that it also reconciles Services of a loadBalancerClass. The
// controller itself ignores every Service with a class. It therefore gets its own informers, which present a Service of
// our class as one without a class. Its writes are patches of status and finalizers and never change the class.
//
// It waits for synced: otherwise every Service would fail its first sync and be retried late.
func serviceController(class string, synced func() bool) ccmapp.InitFuncConstructor {
	return func(
		initContext ccmapp.ControllerInitContext, completed *ccmconfig.CompletedConfig, cloud cloudprovider.Interface,
	) ccmapp.InitFunc {
		return func(ctx context.Context, shared genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
			services := informers.NewSharedInformerFactoryWithOptions(completed.VersionedClient, shared.ResyncPeriod(),
				informers.WithTransform(hideClass(class)))
			c, err := servicecontroller.New(cloud, completed.ClientBuilder.ClientOrDie(initContext.ClientName),
				services.Core().V1().Services(), completed.SharedInformers.Core().V1().Nodes(),
				completed.ComponentConfig.KubeCloudShared.ClusterName, utilfeature.DefaultFeatureGate)
			if err != nil {
				return nil, false, err
			}
			services.StartWithContext(ctx)
			workers := int(completed.ComponentConfig.ServiceController.ConcurrentServiceSyncs)
			go func() {
				defer services.Shutdown()
				if !cache.WaitForCacheSync(ctx.Done(), synced) {
					return
				}
				c.Run(ctx, workers, shared.ControllerManagerMetrics)
			}()
			return nil, true, nil
		}
	}
}

// hideClass removes the class from Services of that class, and fields that no controller reads from all of them.
func hideClass(class string) func(any) (any, error) {
	return func(obj any) (any, error) {
		svc, ok := obj.(*corev1.Service)
		if !ok {
			return obj, nil
		}
		if svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass == class {
			svc.Spec.LoadBalancerClass = nil
		}
		svc.ManagedFields = nil
		return svc, nil
	}
}
