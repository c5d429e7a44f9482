// Package plain is a provider that passes the answers of the cloud about instances on, as those of many clouds do: what
// the controllers of k8s.io/cloud-provider usually run over.
package plain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/providerid"
)

// Provider finds the instances of Nodes. It has no other capability.
type Provider struct {
	cloudprovider.Interface

	// Cloud is the client of the cloud.
	Cloud *cloudapi.Client
}

var _ cloudprovider.InstancesV2 = Provider{}

// InstancesV2 returns the Provider itself.
func (p Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, true }

// Instances returns false.
func (p Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (p Provider) instance(ctx context.Context, node *corev1.Node) (*cloudv1.Instance, error) {
	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return nil, err
	}
	return p.Cloud.Instance(ctx, id)
}

// InstanceExists reports whether the cloud answers that it has the instance of the Node.
func (p Provider) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	_, err := p.instance(ctx, node)
	if cloudapi.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown reports whether the instance of the Node is stopped.
func (p Provider) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := p.instance(ctx, node)
	return err == nil && instance.State == cloudv1.InstanceStopped, err
}

// InstanceMetadata describes the instance of the Node, which is found by its name if it has no provider ID.
func (p Provider) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	var found *cloudv1.Instance
	if node.Spec.ProviderID == "" {
		list, err := p.Cloud.LookupInstances(ctx, cloudv1.LookupRequest{Hostnames: []string{node.Name}})
		if err != nil {
			return nil, err
		}
		if len(list.Items) != 1 {
			return nil, cloudprovider.InstanceNotFound
		}
		found = &list.Items[0]
	} else {
		var err error
		if found, err = p.instance(ctx, node); err != nil {
			return nil, err
		}
	}
	m := machines.Of(found)
	return &cloudprovider.InstanceMetadata{
		ProviderID: m.ProviderID, InstanceType: m.Type, NodeAddresses: m.Addresses, Zone: m.Zone, Region: m.Region,
	}, nil
}
