package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// Migration moves the items of a plan.
type Migration struct {
	// Cloud is the client of the cloud's API.
	Cloud *cloudapi.Client
	// Services are those of the new cluster.
	Services typedcorev1.ServicesGetter
	// From and To are the UIDs of the clusters.
	From, To string
}

// Execute moves the items that the plan does not keep, in its order. It returns the error of each item at the item's
// index; a failed item does not stop the others. What was moved is not in the plan of the next run.
func (m *Migration) Execute(ctx context.Context, plan []Item) []error {
	failed, objects := make([]error, len(plan)), make([]teardown.Item, len(plan))
	for i := range plan {
		item := &plan[i]
		objects[i] = item.Item
		switch {
		case item.Keep != "":
		case item.Group != nil:
			failed[i] = m.moveGroup(ctx, item.Group)
		case item.Balancer != nil:
			failed[i] = m.moveBalancer(ctx, item.Balancer, item.service)
		}
	}
	teardown.ChangeRoutes(ctx, m.Cloud, objects, failed, func(batch *cloudv1.RoutesBatch, route *cloudv1.Route) {
		batch.Upsert = append(batch.Upsert, cloudv1.RouteSpec{
			Destination: route.Destination, NextHop: route.NextHop, Tags: m.retagged(route.Tags),
		})
	})
	return failed
}

func (m *Migration) moveGroup(ctx context.Context, group *cloudv1.NodeGroup) error {
	_, err := m.Cloud.UpdateNodeGroup(ctx, group.ID, cloudv1.NodeGroupSpec{
		Name: group.Name, Tags: m.retagged(group.Tags), Members: group.Members,
	}, cloudapi.WriteOptions{IfMatch: group.Revision, IfTags: m.owned()})
	return err
}

// moveBalancer first records the load balancer on the Service, so that nothing is created in its place if the migration
// ends here.
func (m *Migration) moveBalancer(ctx context.Context, lb *cloudv1.LoadBalancer, svc *corev1.Service) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": svc.UID, "resourceVersion": svc.ResourceVersion,
		"annotations": map[string]string{service.AnnotationRecord: record.Migrated(svc, lb)},
	}})
	if err != nil {
		return err
	}
	_, err = m.Services.Services(svc.Namespace).Patch(ctx, svc.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "quayctl"})
	if err != nil {
		return fmt.Errorf("record the load balancer on Service %s: %w", nameOf(svc), err)
	}
	owner, uid := m.To, string(svc.UID)
	tags := m.owned()
	if former, ok := lb.Tags[ownership.ServiceUID]; ok {
		tags[ownership.ServiceUID] = former
	}
	_, _, err = m.Cloud.PatchLoadBalancer(ctx, lb.ID, cloudv1.LoadBalancerPatch{
		Tags: map[string]*string{ownership.ClusterUID: &owner, ownership.ServiceUID: &uid},
	}, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: tags})
	return err
}

// owned returns the tag of all objects of the old cluster.
func (m *Migration) owned() map[string]string { return map[string]string{ownership.ClusterUID: m.From} }

func (m *Migration) retagged(tags map[string]string) map[string]string {
	now := maps.Clone(tags)
	now[ownership.ClusterUID] = m.To
	return now
}
