package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/providerid"
)

// instancesV2 looks up the machines of Nodes. A Node that is reported as gone is deleted immediately, so it reports
// this only for a machine whose tombstone it has seen: any other response of the cloud, or none, is an error.
type instancesV2 struct {
	cloud *cloudapi.Client
	guard *guard
}

var _ cloudprovider.InstancesV2 = (*instancesV2)(nil)

// InstanceExists returns false only for a tombstone, and only as long as there are not too many of them. A Node without
// provider ID is looked up by name, which proves nothing about the machine that it once was.
func (i *instancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := i.find(ctx, node)
	switch {
	case errors.Is(err, errNameless):
		i.guard.hold(node, unknownHostname, "The node has no provider ID, and no instance has its name. "+
			"The node is kept because this does not prove that its machine is gone; if it is gone, delete the node")
		return false, err
	case cloudapi.IsAbsent(err):
		i.guard.hold(node, unknownInstance, fmt.Sprintf("The cloud has no instance %s and no record of its deletion. "+
			"The node is kept; if its machine is gone, delete the node", node.Spec.ProviderID))
		return false, err
	case err != nil:
		return false, err
	}
	deleted := instance.State == cloudv1.InstanceDeleted
	if deleted && !i.guard.mayGo(node) {
		i.guard.hold(node, tooMany, fmt.Sprintf("The cloud reports instance %s as deleted, and those of too many "+
			"other nodes, too. The node is kept until you delete it or annotate it with %s=true", instance.ID,
			nodelifecycle.AnnotationAllowDeletion))
		return false, fmt.Errorf("node %s: instance %s is deleted, but so are those of too many other nodes",
			node.Name, instance.ID)
	}
	i.guard.release(node)
	return !deleted, nil
}

// InstanceShutdown returns true once the machine is stopped. A machine that is still stopping may run pods, while the
// taint that follows from true states that it runs none.
func (i *instancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := i.find(ctx, node)
	if err != nil {
		return false, err
	}
	return instance.State == cloudv1.InstanceStopped, nil
}

// InstanceMetadata returns what a Node is initialised with.
func (i *instancesV2) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	instance, err := i.find(ctx, node)
	if err != nil {
		return nil, err
	}
	if instance.State == cloudv1.InstanceDeleted {
		return nil, fmt.Errorf("node %s: instance %s is deleted: %w", node.Name, instance.ID, cloudprovider.InstanceNotFound)
	}
	m := machines.Of(instance)
	return &cloudprovider.InstanceMetadata{
		ProviderID: m.ProviderID, InstanceType: m.Type, NodeAddresses: m.Addresses, Zone: m.Zone, Region: m.Region,
	}, nil
}

// errNameless marks the failed lookup of a Node that can be looked up only by its name.
var errNameless = errors.New("the node has no provider ID")

func (i *instancesV2) find(ctx context.Context, node *corev1.Node) (*cloudv1.Instance, error) {
	// Whether a Node is kept depends on the answer.
	instance, err := i.byNode(cloudapi.WithClass(ctx, cloudapi.Safety), node)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return instance, nil
}

func (i *instancesV2) byNode(ctx context.Context, node *corev1.Node) (*cloudv1.Instance, error) {
	if node.Spec.ProviderID == "" {
		return i.byHostname(ctx, node.Name)
	}
	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return nil, err
	}
	return i.cloud.Instance(ctx, id, cloudapi.ReadOptions{})
}

// byHostname returns the only machine with the hostname, not counting tombstones.
func (i *instancesV2) byHostname(ctx context.Context, hostname string) (*cloudv1.Instance, error) {
	found, err := i.cloud.LookupInstances(ctx, cloudv1.LookupRequest{Hostnames: []string{hostname}})
	if err != nil {
		return nil, err
	}
	items := slices.DeleteFunc(found.Items, func(instance cloudv1.Instance) bool {
		return instance.State == cloudv1.InstanceDeleted || instance.Hostname != hostname
	})
	switch len(items) {
	case 0:
		return nil, fmt.Errorf("no instance has the hostname %q, and %w", hostname, errNameless)
	case 1:
		return &items[0], nil
	}
	return nil, fmt.Errorf("instances %s and %s both have the hostname %q, and the node has no provider ID",
		items[0].ID, items[1].ID, hostname)
}
