package loadbalancers

import (
	"fmt"
	"net/http"
	"reflect"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/store"
)

// takeName reserves a load balancer's name and releases its former one.
func takeName(tx *store.Tx, lb *cloudv1.LoadBalancer, was string) error {
	if lb.Name == was {
		return nil
	}
	if owner := store.LoadBalancerNames.Get(tx, lb.Name); owner != "" {
		return failure.New(http.StatusConflict, cloudv1.CodeNameTaken, "name %q is taken by load balancer %s", lb.Name, owner).
			On(store.LoadBalancers.Name, owner)
	}
	if was != "" {
		if err := store.LoadBalancerNames.Delete(tx, was); err != nil {
			return err
		}
	}
	return store.LoadBalancerNames.Set(tx, lb.Name, lb.ID)
}

// removeLoadBalancer deletes a load balancer that no edge in contact serves any more.
func (a *LoadBalancers) removeLoadBalancer(tx *store.Tx, lb *cloudv1.LoadBalancer) error {
	if err := addresses.Reserve(tx, lb.ID, nil); err != nil {
		return err
	}
	if err := store.LoadBalancerNames.Delete(tx, lb.Name); err != nil {
		return err
	}
	if err := store.LoadBalancers.Delete(tx, lb.ID); err != nil {
		return err
	}
	return a.addresses.Free(tx)
}

// applyTree sets the fields of a load balancer to those of a spec that balancer.Validate has accepted.
func (a *LoadBalancers) applyTree(tx *store.Tx, lb *cloudv1.LoadBalancer, want cloudv1.LoadBalancerFields) error {
	if err := a.checkReferences(tx, lb, want); err != nil {
		return err
	}
	vips, err := a.assignVIPs(tx, lb, want)
	if err != nil {
		return err
	}
	lb.LoadBalancerFields = want
	lb.VIPs = vips
	for i := range lb.Pools {
		for j := range lb.Pools[i].Members {
			m := &lb.Pools[i].Members[j]
			m.OperatingState, m.Detail = "", ""
		}
	}
	return nil
}

// checkReferences rejects references to objects that do not exist, members that must not get traffic, and changes of
// immutable fields.
func (a *LoadBalancers) checkReferences(tx *store.Tx, lb *cloudv1.LoadBalancer, want cloudv1.LoadBalancerFields) error {
	problems := danglingReferences(tx, &want)
	members, err := a.Members.Check(tx, poolAddresses(lb.Pools), poolAddresses(want.Pools))
	if err != nil {
		return err
	}
	problems = append(problems, members...)
	immutable := func(pointer string, same bool) {
		if lb.Revision != "" && !same {
			problem := cloudv1.ProblemField{Pointer: pointer, Code: cloudv1.CodeUnsupported, Detail: "is immutable"}
			problems = append(problems, problem)
		}
	}
	immutable("/scheme", lb.Scheme == want.Scheme)
	immutable("/network", reflect.DeepEqual(lb.Network, want.Network))
	if len(problems) > 0 {
		return failure.Invalid(problems)
	}
	return nil
}

// danglingReferences returns the fields that refer to objects that do not exist. It decodes none: there may be hundreds of
// pools with large node groups, and other writes wait.
func danglingReferences(tx *store.Tx, want *cloudv1.LoadBalancerFields) []cloudv1.ProblemField {
	var problems []cloudv1.ProblemField
	none := func(pointer, kind, id string) {
		detail := (&store.NotFoundError{Kind: kind, ID: id}).Error()
		problems = append(problems, cloudv1.ProblemField{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: detail})
	}
	for i, id := range want.Zones {
		if !store.Zones.Has(tx, id) {
			none(fmt.Sprintf("/zones/%d", i), store.Zones.Name, id)
		}
	}
	for i, p := range want.Pools {
		if id := p.NodeGroupID; id != "" && !store.NodeGroups.Has(tx, id) {
			none(fmt.Sprintf("/pools/%d/node_group_id", i), store.NodeGroups.Name, id)
		}
	}
	return problems
}

// assignVIPs keeps the addresses of families that stay, allocates addresses for new families, and gives up the others.
func (a *LoadBalancers) assignVIPs(
	tx *store.Tx, lb *cloudv1.LoadBalancer, want cloudv1.LoadBalancerFields,
) ([]cloudv1.VIP, error) {
	asked := want.VIPs
	if len(asked) == 0 {
		asked = []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}}
	}
	has := map[string]cloudv1.VIP{}
	for _, v := range lb.VIPs {
		has[v.Family] = v
	}
	vips := make([]cloudv1.VIP, 0, len(asked))
	for i, v := range asked {
		old, stays := has[v.Family]
		if !stays {
			address, err := a.addresses.Assign(tx, lb.ID, want.Scheme, i, v)
			if err != nil {
				return nil, err
			}
			old = cloudv1.VIP{ID: write.NewID("vip-"), Family: v.Family, Address: address}
		}
		old.Mode = v.Mode
		vips = append(vips, old)
	}
	return vips, nil
}

// poolAddresses returns the addresses of the members of pools.
func poolAddresses(pools []cloudv1.Pool) []members.Address {
	var all []members.Address
	for i := range pools {
		for j := range pools[i].Members {
			all = append(all, members.Address{Pointer: fmt.Sprintf("/pools/%d/members/%d/address", i, j), Address: pools[i].Members[j].Address})
		}
	}
	return all
}
