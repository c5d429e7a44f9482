package nodegroup

import (
	"context"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
)

// lookups is the number of instances that one request may ask for.
const lookups = 500

// Machines finds instances in the mirror of the cloud, and asks the cloud for those that it does not have.
type Machines struct {
	cloud  *cloudapi.Client
	mirror *mirror.Mirror
}

var _ ingressnode.Machines = (*Machines)(nil)

// NewMachines returns the instances of the cloud.
func NewMachines(cloud *cloudapi.Client, mirror *mirror.Mirror) *Machines {
	return &Machines{cloud: cloud, mirror: mirror}
}

// HasSynced reports whether the mirror has the instances, or could not read them, so that Find asks the cloud.
func (m *Machines) HasSynced() bool { return m.mirror.Instances.Synced() || m.mirror.Err() != nil }

// Find implements ingressnode.Machines. While the cloud does not answer, the mirror may be out of date and is not used.
func (m *Machines) Find(ctx context.Context, ids []string) (map[string]ingressnode.Machine, error) {
	found := make(map[string]ingressnode.Machine, len(ids))
	var unknown []string
	for _, id := range ids {
		if instance := m.mirror.Instances.Get(id); instance != nil && m.mirror.Current() {
			found[id] = machine(instance)
		} else {
			unknown = append(unknown, id)
		}
	}
	ctx = cloudapi.WithClass(ctx, cloudapi.Safety)
	for some := range slices.Chunk(unknown, lookups) {
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
