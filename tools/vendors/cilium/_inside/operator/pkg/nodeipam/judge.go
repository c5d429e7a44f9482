package nodeipam

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReconcileForJudge publishes the addresses of nodes for a Service, also if it has no class. There are no nodes.
func ReconcileForJudge(ctx context.Context, logger *slog.Logger, service *corev1.Service) error {
	r := &nodeSvcLBReconciler{Client: cluster{service: service}, DefaultIPAM: true, Logger: logger}
	_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(service)})
	return err
}

// cluster is a client of a cluster with one Service.
type cluster struct {
	client.Client

	service *corev1.Service
}

func (c cluster) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.service.DeepCopyInto(into.(*corev1.Service))
	return nil
}

func (cluster) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (cluster) Status() client.SubResourceWriter { return status{} }

// status forgets what is written.
type status struct{ client.SubResourceWriter }

func (status) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return nil
}
