package balancer

import cloudv1 "quaymaster.dev/api/mycloud/v1"

// Facts provides the facts that the health of members depends on.
type Facts struct {
	// Group returns the members of a node group.
	Group func(id string) ([]cloudv1.GroupMember, error)
	// Instance returns the state of an instance, or an empty string if there is none.
	Instance func(id string) (cloudv1.InstanceState, error)
}

// Observe returns the health of every member and of the load balancer. A member whose instance does not run is offline.
func Observe(lb *cloudv1.LoadBalancer, f Facts) (cloudv1.Health, error) {
	h := cloudv1.Health{Pools: make([]cloudv1.PoolHealth, 0, len(lb.Pools))}
	count := map[string]int{}
	for i := range lb.Pools {
		p := &lb.Pools[i]
		members, err := members(p, f)
		if err != nil {
			return h, err
		}
		for j := range members {
			m := &members[j]
			if m.OperatingState, err = memberState(m, f); err != nil {
				return h, err
			}
			count[m.OperatingState]++
		}
		h.Pools = append(h.Pools, cloudv1.PoolHealth{Key: p.Key, Family: p.Family, Members: members})
	}
	h.OperatingState = overall(lb.ProvisioningState, count)
	return h, nil
}

func overall(s cloudv1.ProvisioningState, count map[string]int) string {
	up, down := count[cloudv1.OperatingOnline], count[cloudv1.OperatingOffline]
	switch {
	case s == cloudv1.ProvisioningPendingCreate:
		return cloudv1.OperatingUnknown
	case up > 0 && down > 0:
		return cloudv1.OperatingDegraded
	case up > 0:
		return cloudv1.OperatingOnline
	case down > 0:
		return cloudv1.OperatingOffline
	case count[cloudv1.OperatingUnknown] > 0:
		return cloudv1.OperatingUnknown
	}
	return cloudv1.OperatingNoMembers
}

// members returns the pool's own members, or those of its node group that have an address of the pool's family.
func members(p *cloudv1.Pool, f Facts) ([]cloudv1.Member, error) {
	if p.NodeGroupID == "" {
		return append([]cloudv1.Member{}, p.Members...), nil
	}
	group, err := f.Group(p.NodeGroupID)
	if err != nil {
		return nil, err
	}
	all := make([]cloudv1.Member, 0, len(group))
	for _, g := range group {
		for _, a := range g.Addresses {
			if a.Family != p.Family {
				continue
			}
			all = append(all, cloudv1.Member{
				Key: g.Key, Address: a.Address, Port: p.TargetPort, Weight: g.Weight, State: g.State,
				InstanceID: g.InstanceID, Zone: g.Zone,
			})
			break
		}
	}
	return all, nil
}

func memberState(m *cloudv1.Member, f Facts) (string, error) {
	if m.State == cloudv1.MemberDraining || m.Weight == 0 {
		return cloudv1.OperatingDraining, nil
	}
	if m.InstanceID == "" {
		// The cloud cannot observe machines that are not its instances.
		return cloudv1.OperatingUnknown, nil
	}
	s, err := f.Instance(m.InstanceID)
	if err != nil {
		return "", err
	}
	if s == cloudv1.InstanceRunning || s == cloudv1.InstanceMigrating {
		return cloudv1.OperatingOnline, nil
	}
	return cloudv1.OperatingOffline, nil
}
