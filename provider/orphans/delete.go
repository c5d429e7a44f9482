package orphans

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/pager"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/teardown"
)

// List returns the orphans of the cluster with the UID, by what the cloud and the API server say now. Load balancers are
// listed first: the Service of each of them exists by then.
func List(
	ctx context.Context, cloud *cloudapi.Client, api typedcorev1.ServicesGetter, clusterUID string,
	owned func(*corev1.Service) bool,
) ([]Orphan, error) {
	balancers, err := teardown.LoadBalancers(ctx, cloud, clusterUID)
	if err != nil {
		return nil, err
	}
	var services []*corev1.Service
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return api.Services(metav1.NamespaceAll).List(ctx, opts)
	})
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if svc, ok := obj.(*corev1.Service); ok {
			services = append(services, svc)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	all := make([]*cloudv1.LoadBalancer, len(balancers))
	for i := range balancers {
		all[i] = &balancers[i]
	}
	return Find(all, services, owned), nil
}

// Plan plans the deletion of orphans for teardown.Execute.
func Plan(orphans []Orphan) []teardown.Item {
	var found teardown.Inventory
	keep := map[string]string{}
	for _, o := range orphans {
		found.LoadBalancers = append(found.LoadBalancers, *o.LoadBalancer)
		keep[o.ID] = o.Keep()
	}
	return teardown.Plan(found, func(lb *cloudv1.LoadBalancer) string { return keep[lb.ID] })
}
