package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/provider/providerid"
)

// instances implements the older interface on top of InstancesV2.
type instances struct{ v2 *instancesV2 }

var _ cloudprovider.Instances = (*instances)(nil)

func nodeNamed(name types.NodeName) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(name)}}
}

// withProviderID returns a Node with a provider ID. It rejects an empty one, which would be looked up as a hostname.
func withProviderID(providerID string) (*corev1.Node, error) {
	_, err := providerid.Parse(providerID)
	return &corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}}, err
}

func (i *instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return i.addresses(ctx, nodeNamed(name))
}

func (i *instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]corev1.NodeAddress, error) {
	node, err := withProviderID(providerID)
	if err != nil {
		return nil, err
	}
	return i.addresses(ctx, node)
}

func (i *instances) addresses(ctx context.Context, node *corev1.Node) ([]corev1.NodeAddress, error) {
	metadata, err := i.v2.InstanceMetadata(ctx, node)
	if err != nil {
		return nil, err
	}
	return metadata.NodeAddresses, nil
}

// InstanceID returns the id without the provider's scheme, which the caller prepends.
func (i *instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	metadata, err := i.v2.InstanceMetadata(ctx, nodeNamed(name))
	if err != nil {
		return "", err
	}
	return providerid.Parse(metadata.ProviderID)
}

func (i *instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return i.instanceType(ctx, nodeNamed(name))
}

func (i *instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	node, err := withProviderID(providerID)
	if err != nil {
		return "", err
	}
	return i.instanceType(ctx, node)
}

func (i *instances) instanceType(ctx context.Context, node *corev1.Node) (string, error) {
	metadata, err := i.v2.InstanceMetadata(ctx, node)
	if err != nil {
		return "", err
	}
	return metadata.InstanceType, nil
}

func (i *instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

func (i *instances) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

func (i *instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	node, err := withProviderID(providerID)
	if err != nil {
		return false, err
	}
	return i.v2.InstanceExists(ctx, node)
}

func (i *instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	node, err := withProviderID(providerID)
	if err != nil {
		return false, err
	}
	return i.v2.InstanceShutdown(ctx, node)
}
