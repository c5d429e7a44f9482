package balancer

import (
	"slices"
	"strconv"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
)

// ApplyTime is how long an edge may take to apply a change before the load balancer counts as degraded.
const ApplyTime = 10 * time.Second

// Facts provides the facts that the health of members depends on.
type Facts struct {
	Now time.Time
	// Group returns a node group.
	Group func(id string) (*cloudv1.NodeGroup, error)
	// Instance returns the state of an instance, or an empty string if there is none.
	Instance func(id string) (cloudv1.InstanceState, error)
	// Edges are those that are online.
	Edges []*edges.Edge
}

// Observe returns the health of every member and of the load balancer: what edges of its zones see or, without such edges,
// whether the instances of the members run. Without edges, it is unknown whether the load balancer serves.
func Observe(lb *cloudv1.LoadBalancer, f Facts) (cloudv1.Health, error) {
	f.Edges = slices.DeleteFunc(slices.Clone(f.Edges), func(e *edges.Edge) bool { return !lb.ServedFrom(e.Zone) })
	h := cloudv1.Health{Pools: make([]cloudv1.PoolHealth, 0, len(lb.Pools))}
	count := map[string]int{}
	impaired := impaired(lb, f)
	for i := range lb.Pools {
		p := &lb.Pools[i]
		members, group, err := members(p, f)
		if err != nil {
			return h, err
		}
		for j := range members {
			m := &members[j]
			if err = observe(lb, p, m, f); err != nil {
				return h, err
			}
			count[m.OperatingState]++
		}
		impaired = impaired || group != nil && behind(&group.Object, f)
		h.Pools = append(h.Pools, cloudv1.PoolHealth{Key: p.Key, Family: p.Family, Members: members})
	}
	h.OperatingState = overall(count)
	switch {
	case h.OperatingState == cloudv1.OperatingNoMembers:
		// This needs no observation.
	case len(f.Edges) == 0 || lb.ProvisioningState == cloudv1.ProvisioningPendingCreate:
		h.OperatingState = cloudv1.OperatingUnknown
	case impaired && h.OperatingState != cloudv1.OperatingOffline:
		h.OperatingState = cloudv1.OperatingDegraded
	}
	return h, nil
}

// impaired reports whether a live edge does not do what the load balancer asks for.
func impaired(lb *cloudv1.LoadBalancer, f Facts) bool {
	return behind(&lb.Object, f) || slices.ContainsFunc(f.Edges, func(e *edges.Edge) bool {
		return e.Live() && len(e.FaultsOf(lb.ID)) > 0
	})
}

// behind reports whether a live edge has had enough time to apply the last change of an object, but has not.
func behind(o *cloudv1.Object, f Facts) bool {
	// The store counts revisions, so this does not fail.
	revision, _ := strconv.ParseUint(o.Revision, 10, 64)
	return slices.ContainsFunc(f.Edges, func(e *edges.Edge) bool {
		return e.Live() && e.Applied < revision && f.Now.Sub(o.UpdatedAt) > ApplyTime && f.Now.Sub(e.Since) > ApplyTime
	})
}

func overall(count map[string]int) string {
	up, down := count[cloudv1.OperatingOnline], count[cloudv1.OperatingOffline]
	switch {
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

// members returns the pool's own members, or those of its node group that have an address of the pool's family. The
// group is nil in the former case.
func members(p *cloudv1.Pool, f Facts) ([]cloudv1.Member, *cloudv1.NodeGroup, error) {
	if p.NodeGroupID == "" {
		return append([]cloudv1.Member{}, p.Members...), nil, nil
	}
	group, err := f.Group(p.NodeGroupID)
	if err != nil {
		return nil, nil, err
	}
	all := make([]cloudv1.Member, 0, len(group.Members))
	for _, g := range group.Members {
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
	return all, group, nil
}

// observe sets the operating state of a member.
func observe(lb *cloudv1.LoadBalancer, p *cloudv1.Pool, m *cloudv1.Member, f Facts) (err error) {
	if m.State == cloudv1.MemberDraining || m.Weight == 0 {
		m.OperatingState = cloudv1.OperatingDraining
		return nil
	}
	m.OperatingState = cloudv1.OperatingUnknown
	for _, e := range f.Edges {
		seen, ok := e.Health(lb.ID, p.Key, p.Family, m.Key)
		if ok && better(seen.State, m.OperatingState) {
			m.OperatingState, m.Detail = seen.State, seen.Detail
		}
	}
	monitored := p.HealthMonitor != nil && p.HealthMonitor.Type != cloudv1.ProtocolNone
	if m.OperatingState != cloudv1.OperatingUnknown || monitored && len(f.Edges) > 0 {
		return nil
	}
	if m.OperatingState, err = instanceState(m, f); m.OperatingState == cloudv1.OperatingUnknown && len(f.Edges) > 0 {
		// Edges do not probe it, and count it as healthy.
		m.OperatingState = cloudv1.OperatingOnline
	}
	return err
}

// better reports whether one edge's state of a member outweighs that of another edge: a member that any edge can reach
// is online.
func better(state, than string) bool {
	order := []string{
		cloudv1.OperatingUnknown, cloudv1.OperatingDraining, cloudv1.OperatingOffline, cloudv1.OperatingOnline,
	}
	return slices.Index(order, state) > slices.Index(order, than)
}

// instanceState is offline if the member's instance does not run.
func instanceState(m *cloudv1.Member, f Facts) (string, error) {
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
