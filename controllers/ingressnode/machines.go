package ingressnode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// Machine is what the cloud knows of an instance.
type Machine struct {
	// Addresses are the addresses that the cloud has assigned to the instance.
	Addresses []string
	// Deleted is true if the instance is deleted.
	Deleted bool
}

func (m *Machine) assigned(addresses []string) []string {
	return filter(addresses, func(a string) bool { return slices.Contains(m.Addresses, a) })
}

// Machines reads the instances of the cloud.
type Machines interface {
	// Find returns the instances with these IDs. An ID that the result lacks is one about which the cloud says nothing.
	Find(ctx context.Context, ids []string) (map[string]Machine, error)
}

const (
	// machineAge is how long the cloud's answer about an instance is used.
	machineAge = 10 * time.Minute
	// machineRecheck is how long it is used if it does not fit the Node: either may have changed since.
	machineRecheck = driftPeriod
)

// reasonForeignAddress is the reason of Events about addresses that the cloud has not assigned to the Node's instance.
const reasonForeignAddress = "AddressNotInCloud"

// machines caches the instances of Nodes, so that a change of a Node usually costs no read of its instance, and changes
// of many Nodes one.
type machines struct {
	source   Machines
	recorder record.EventRecorder
	clock    clock.PassiveClock
	known    map[string]answer
	// reported are the addresses of each Node that an Event has reported.
	reported map[types.UID]string
}

// answer is the cloud's answer about an instance; nil means that it knows none.
type answer struct {
	machine *Machine
	at      time.Time
}

func newMachines(source Machines, recorder record.EventRecorder, c clock.PassiveClock) *machines {
	return &machines{
		source: source, recorder: recorder, clock: c, known: map[string]answer{}, reported: map[types.UID]string{},
	}
}

// refresh reads the instances that are unknown or may have changed: those of Nodes, by ID with the addresses of the
// Node, and those without Node. The answers of an earlier refresh stay if it fails.
func (m *machines) refresh(ctx context.Context, instances map[string][]string) error {
	now := m.clock.Now()
	var due []string
	for id, addresses := range instances {
		known, ok := m.known[id]
		fits := known.machine != nil && len(addresses) > 0 && len(known.machine.assigned(addresses)) == len(addresses)
		if age := now.Sub(known.at); !ok || age >= machineAge || !fits && age >= machineRecheck {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.Sort(due)
	found, err := m.source.Find(ctx, due)
	if err != nil {
		return fmt.Errorf("read the instances of nodes: %w", err)
	}
	for _, id := range due {
		m.known[id] = answer{at: now}
		if machine, ok := found[id]; ok {
			m.known[id] = answer{machine: &machine, at: now}
		}
	}
	return nil
}

func (m *machines) get(id string) *Machine { return m.known[id].machine }

// report emits an Event about the addresses of a Node that are not used, once.
func (m *machines) report(node *corev1.Node, n candidate) {
	if n.machine == nil {
		return
	}
	foreign := strings.Join(filter(n.addresses, func(a string) bool {
		return !slices.Contains(n.machine.Addresses, a)
	}), ", ")
	if foreign == "" {
		delete(m.reported, node.UID)
		return
	}
	if m.reported[node.UID] != foreign {
		m.recorder.Eventf(node, corev1.EventTypeWarning, reasonForeignAddress,
			"load balancers do not use the internal address %s: the cloud has not assigned it to instance %s; "+
				"correct the address of the node, or assign it in the cloud", foreign, n.instanceID)
		m.reported[node.UID] = foreign
	}
}

// forgetNodes drops the state of Nodes that no longer exist.
func (m *machines) forgetNodes(present map[types.UID]bool) {
	maps.DeleteFunc(m.reported, func(uid types.UID, _ string) bool { return !present[uid] })
}

// forgetInstances drops the answers about instances that are not needed any more.
func (m *machines) forgetInstances(needed map[string][]string) {
	maps.DeleteFunc(m.known, func(id string, _ answer) bool {
		_, used := needed[id]
		return !used
	})
}
