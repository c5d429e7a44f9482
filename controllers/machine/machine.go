// Package machine describes the machines of Nodes to the controllers that initialize and delete Nodes.
package machine

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
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
