// Package machine describes the machines of Nodes to the controllers that initialize and delete Nodes.
package machine

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// State is what a cloud says about a machine.
type State int

// The states of a machine that matter to a Node.
const (
	// Present machines exist, whatever they are doing.
	Present State = iota
	// Stopped machines exist and run no pods.
	Stopped
	// Deleted machines no longer exist, and the cloud has a record of their deletion.
	Deleted
)

// Machine is a machine in the cloud.
type Machine struct {
	// ProviderID is the value of a Node's spec.providerID.
	ProviderID string
	State      State
	// Hostname is the name of its Node; empty if the cloud does not know it.
	Hostname string
	// Type, Zone and Region are the values of the labels of a Node.
	Type, Zone, Region string
	// Addresses are in the order in which a Node lists them: clients use the first suitable one.
	Addresses []corev1.NodeAddress
}

// ErrForeign marks a Node whose provider ID belongs to another cloud: no controller may touch it.
var ErrForeign = errors.New("the machine belongs to another cloud")

// Copy is a copy of what the cloud knows about machines.
type Copy interface {
	// Machine returns the machine of a Node, without a request; nil if it is not in the copy, which proves nothing. The
	// error wraps ErrForeign for a Node of another cloud.
	Machine(node *corev1.Node) (*Machine, error)
	// HasSynced reports whether the copy has been filled once.
	HasSynced() bool
	// OnChange calls f with the provider ID and the hostname of every machine that changes.
	OnChange(f func(providerID, hostname string))
}

// byProviderID is the name of the index of Nodes by provider ID.
const byProviderID = "quaymaster.dev/provider-id"

// Index makes NodesOf find the Nodes of an informer. Several controllers may call it.
func Index(nodes cache.SharedIndexInformer) error {
	if _, indexed := nodes.GetIndexer().GetIndexers()[byProviderID]; indexed {
		return nil
	}
	return nodes.AddIndexers(cache.Indexers{byProviderID: func(obj any) ([]string, error) {
		if node, ok := obj.(*corev1.Node); ok && node.Spec.ProviderID != "" {
			return []string{node.Spec.ProviderID}, nil
		}
		return nil, nil
	}})
}

// NodesOf returns the Nodes with a provider ID.
func NodesOf(nodes cache.SharedIndexInformer, providerID string) []*corev1.Node {
	var found []*corev1.Node
	objects, _ := nodes.GetIndexer().ByIndex(byProviderID, providerID) // the index exists
	for _, obj := range objects {
		if node, ok := obj.(*corev1.Node); ok {
			found = append(found, node)
		}
	}
	return found
}
