// Package machines finds the machines of Nodes, for the controllers that initialize and delete Nodes.
package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/machine"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/providerid"
)

// Machines finds machines in the mirror of the cloud, and asks the cloud itself about those that are to be given up.
type Machines struct {
	cloud  *cloudapi.Client
	mirror *mirror.Mirror
}

// New returns Machines.
func New(cloud *cloudapi.Client, mirror *mirror.Mirror) *Machines {
	return &Machines{cloud: cloud, mirror: mirror}
}

// HasSynced reports whether the mirror has been filled once.
func (m *Machines) HasSynced() bool { return m.mirror.Instances.Synced() }

// OnChange calls f with the provider ID and the hostname of every machine that changes. It must be called before the
// mirror runs, and f must not block.
func (m *Machines) OnChange(f func(providerID, hostname string)) {
	m.mirror.Instances.OnChange(func(before, after *cloudv1.Instance) {
		for _, instance := range []*cloudv1.Instance{before, after} {
			if instance != nil {
				f(providerid.Format(instance.ID), instance.Hostname)
			}
		}
	})
}

// Machine returns the machine of a Node from the mirror, without a request. It returns nil if the mirror does not have
// it, which proves nothing. A Node without provider ID is found by its name, which must be the hostname of exactly one
// machine that is not deleted.
func (m *Machines) Machine(node *corev1.Node) (*machine.Machine, error) {
	if node.Spec.ProviderID == "" {
		return only(node, m.mirror.Instances.Find(node.Name))
	}
	id, err := parse(node)
	if err != nil {
		return nil, err
	}
	instance := m.mirror.Instances.Get(id)
	if instance == nil {
		return nil, nil //nolint:nilnil // there is neither a machine nor an error
	}
	return Of(instance), nil
}

// Current asks the cloud itself about the machines of Nodes in one request, and returns those that it knows, as Machine
// does. A Node whose name is the hostname of several machines has none.
func (m *Machines) Current(ctx context.Context, nodes []*corev1.Node) (map[string]*machine.Machine, error) {
	var r cloudv1.LookupRequest
	for _, node := range nodes {
		if node.Spec.ProviderID == "" {
			r.Hostnames = append(r.Hostnames, node.Name)
		} else if id, err := parse(node); err == nil {
			r.IDs = append(r.IDs, id)
		}
	}
	answer, err := m.cloud.LookupInstances(ctx, r)
	if err != nil {
		return nil, err
	}
	byID, byName := map[string]*cloudv1.Instance{}, map[string][]*cloudv1.Instance{}
	for i := range answer.Items {
		instance := &answer.Items[i]
		byID[providerid.Format(instance.ID)] = instance
		byName[instance.Hostname] = append(byName[instance.Hostname], instance)
	}
	found := make(map[string]*machine.Machine, len(nodes))
	for _, node := range nodes {
		if node.Spec.ProviderID == "" {
			if one, err := only(node, byName[node.Name]); err == nil && one != nil {
				found[node.Name] = one
			}
		} else if instance := byID[node.Spec.ProviderID]; instance != nil {
			found[node.Name] = Of(instance)
		}
	}
	return found, nil
}

// Ask asks the cloud itself. It returns nil without an error only if the cloud knows all its objects, and answered with
// a problem of its API that it neither has the machine nor a record of its deletion.
func (m *Machines) Ask(ctx context.Context, node *corev1.Node) (*machine.Machine, error) {
	ctx = cloudapi.WithClass(ctx, cloudapi.Safety)
	meta, err := m.cloud.Meta(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the state of the cloud: %w", err)
	}
	if meta.Status != cloudv1.StatusOK {
		return nil, fmt.Errorf("the cloud reports that it is %s", meta.Status)
	}
	if node.Spec.ProviderID == "" {
		return m.askByName(ctx, node)
	}
	id, err := parse(node)
	if err != nil {
		return nil, err
	}
	instance, err := m.cloud.Instance(ctx, id)
	switch {
	case cloudapi.IsNotFound(err):
		return nil, nil //nolint:nilnil // the cloud does not know the machine
	case err != nil:
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return Of(instance), nil
}

func (m *Machines) askByName(ctx context.Context, node *corev1.Node) (*machine.Machine, error) {
	found, err := m.cloud.LookupInstances(ctx, cloudv1.LookupRequest{Hostnames: []string{node.Name}})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	instances := make([]*cloudv1.Instance, 0, len(found.Items))
	for i := range found.Items {
		instances = append(instances, &found.Items[i])
	}
	one, err := only(node, instances)
	if err == nil && one == nil && !slices.Contains(found.NotFound, node.Name) {
		return nil, fmt.Errorf("node %s: the response of the cloud does not mention the hostname", node.Name)
	}
	return one, err
}

// only returns the only machine with the Node's name that is not deleted, or nil if there is none.
func only(node *corev1.Node, instances []*cloudv1.Instance) (*machine.Machine, error) {
	instances = slices.DeleteFunc(slices.Clone(instances), func(i *cloudv1.Instance) bool {
		return i.State == cloudv1.InstanceDeleted || i.Hostname != node.Name
	})
	switch len(instances) {
	case 0:
		return nil, nil //nolint:nilnil // there is neither a machine nor an error
	case 1:
		return Of(instances[0]), nil
	}
	return nil, fmt.Errorf("instances %s and %s both have the hostname %q, and the node has no provider ID",
		instances[0].ID, instances[1].ID, node.Name)
}

func parse(node *corev1.Node) (string, error) {
	id, err := providerid.Parse(node.Spec.ProviderID)
	if errors.Is(err, providerid.ErrForeign) {
		return "", fmt.Errorf("node %s: %w: %w", node.Name, machine.ErrForeign, err)
	}
	if err != nil {
		return "", fmt.Errorf("node %s: %w", node.Name, err)
	}
	return id, nil
}

// Of describes an instance. A machine that is still stopping may run pods, so it does not count as stopped.
func Of(instance *cloudv1.Instance) *machine.Machine {
	m := &machine.Machine{
		ProviderID: providerid.Format(instance.ID), Hostname: instance.Hostname, Type: instance.Type, Zone: instance.Zone, Region: instance.Region,
		Addresses: addresses(instance),
	}
	if instance.State == cloudv1.InstanceStopped {
		m.State = machine.Stopped
	}
	if instance.State == cloudv1.InstanceDeleted {
		m.State = machine.Deleted
	}
	return m
}

// addressTypes has the order in which a Node lists its addresses: clients use the first suitable one.
var addressTypes = []struct {
	cloud string
	node  corev1.NodeAddressType
}{
	{cloudv1.AddressInternal, corev1.NodeInternalIP},
	{cloudv1.AddressExternal, corev1.NodeExternalIP},
	{cloudv1.AddressInternalDNS, corev1.NodeInternalDNS},
	{cloudv1.AddressExternalDNS, corev1.NodeExternalDNS},
	{cloudv1.AddressHostname, corev1.NodeHostName},
}

// addresses returns the addresses of the machine, the families of each type in the cloud's order, and always a
// hostname.
func addresses(instance *cloudv1.Instance) []corev1.NodeAddress {
	var list []corev1.NodeAddress
	for _, t := range addressTypes {
		for _, a := range instance.Addresses {
			if a.Type == t.cloud {
				list = append(list, corev1.NodeAddress{Type: t.node, Address: a.Address})
			}
		}
	}
	named := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }
	if instance.Hostname != "" && !slices.ContainsFunc(list, named) {
		list = append(list, corev1.NodeAddress{Type: corev1.NodeHostName, Address: instance.Hostname})
	}
	return list
}
