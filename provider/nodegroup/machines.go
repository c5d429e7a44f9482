package nodegroup

import (
	"context"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/cloudapi"
)

// lookups is the number of instances that one request may ask for.
const lookups = 500

// Machines reads the instances of the cloud.
type Machines struct{ cloud *cloudapi.Client }

var _ ingressnode.Machines = (*Machines)(nil)

// NewMachines returns the instances of the cloud.
func NewMachines(cloud *cloudapi.Client) *Machines { return &Machines{cloud: cloud} }

// Find implements ingressnode.Machines.
func (m *Machines) Find(ctx context.Context, ids []string) (map[string]ingressnode.Machine, error) {
	found := make(map[string]ingressnode.Machine, len(ids))
	for some := range slices.Chunk(ids, lookups) {
		answer, err := m.cloud.LookupInstances(ctx, cloudv1.LookupRequest{IDs: some})
		if err != nil {
			return nil, err
		}
		for _, instance := range answer.Items {
			found[instance.ID] = machine(&instance)
		}
	}
	return found, nil
}

func machine(instance *cloudv1.Instance) ingressnode.Machine {
	m := ingressnode.Machine{Deleted: instance.State == cloudv1.InstanceDeleted}
	for _, a := range instance.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			m.Addresses = append(m.Addresses, ip.String())
		}
	}
	return m
}
