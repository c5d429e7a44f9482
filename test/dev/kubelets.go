package main

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

const (
	// followInterval is how often Nodes are synchronized with their instances.
	followInterval = time.Second
	// leaseDuration and renewInterval are those of a kubelet.
	leaseDuration = 40 * time.Second
	renewInterval = 10 * time.Second
)

// kubelets does what the kubelet of every instance would do: it registers a Node, reports its status, and renews its
// lease while the instance runs.
type kubelets struct {
	cloud *cloudapi.Client
	nodes client.Client
	clock clock.WithTicker
	out   io.Writer
	// known holds the instances that have registered before. Their Nodes are not registered again after removal.
	known map[string]bool
	// renewed holds when the lease of a Node was last renewed.
	renewed map[string]time.Time
}

func newKubelets(cloud *cloudapi.Client, nodes client.Client, clock clock.WithTicker, out io.Writer) *kubelets {
	return &kubelets{
		cloud: cloud, nodes: nodes, clock: clock, out: out, known: map[string]bool{}, renewed: map[string]time.Time{},
	}
}

// follow synchronizes Nodes with instances until the context ends. Failed calls to the cloud or the API server are
// retried: kubelets outlive both.
func (k *kubelets) follow(ctx context.Context) {
	ticker := k.clock.NewTicker(followInterval)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		text := ""
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			fmt.Fprintln(k.out, "…", text)
		}
		last = text
	}
}

// sync registers the Nodes of new instances and reports for each Node whether its instance runs.
func (k *kubelets) sync(ctx context.Context) error {
	instances, err := k.cloud.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true})
	if err != nil {
		return fmt.Errorf("sync instances: %w", err)
	}
	var nodes corev1.NodeList
	if err := k.nodes.List(ctx, &nodes); err != nil {
		return fmt.Errorf("sync instances: %w", err)
	}
	byName := make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for _, instance := range instances.Items {
		node, registered := byName[instance.Hostname]
		if registered {
			k.known[instance.ID] = true
			err = k.report(ctx, node, instance.State == cloudv1.InstanceRunning)
		} else if !k.known[instance.ID] && instance.State == cloudv1.InstanceRunning {
			err = k.register(ctx, instance)
		}
		if err != nil {
			return fmt.Errorf("sync instance %s: %w", instance.ID, err)
		}
	}
	return nil
}

// register creates the Node of an instance like a kubelet with an external cloud provider: without provider ID and
// addresses, and with a taint that keeps pods away until the cloud-controller-manager has set them.
func (k *kubelets) register(ctx context.Context, instance cloudv1.Instance) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: instance.Hostname,
			Labels: map[string]string{
				corev1.LabelHostname:   instance.Hostname,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		}}},
	}
	if err := k.nodes.Create(ctx, node); err != nil {
		return err
	}
	k.known[instance.ID] = true
	return nil
}
