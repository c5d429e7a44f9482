package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/store"
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
func (a *API) removeLoadBalancer(tx *store.Tx, lb *cloudv1.LoadBalancer) error {
	if err := reserveAddresses(tx, lb.ID, nil); err != nil {
		return err
	}
	if err := store.LoadBalancerNames.Delete(tx, lb.Name); err != nil {
		return err
	}
	if err := store.LoadBalancers.Delete(tx, lb.ID); err != nil {
		return err
	}
	return a.freeAddresses(tx)
}

// applyTree sets the fields of a load balancer to those of a spec that balancer.Validate has accepted.
func (a *API) applyTree(tx *store.Tx, lb *cloudv1.LoadBalancer, want cloudv1.LoadBalancerFields) error {
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
func (a *API) checkReferences(tx *store.Tx, lb *cloudv1.LoadBalancer, want cloudv1.LoadBalancerFields) error {
	problems, err := danglingReferences(tx, &want)
	if err != nil {
		return err
	}
	members, err := a.checkMembers(tx, poolAddresses(lb.Pools), poolAddresses(want.Pools))
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

// danglingReferences returns the fields that refer to objects that do not exist.
func danglingReferences(tx *store.Tx, want *cloudv1.LoadBalancerFields) ([]cloudv1.ProblemField, error) {
	var problems []cloudv1.ProblemField
	exists := func(pointer string, err error) error {
		var none *store.NotFoundError
		if !errors.As(err, &none) {
			return err
		}
		problems = append(problems, cloudv1.ProblemField{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: none.Error()})
		return nil
	}
	for i, z := range want.Zones {
		_, err := store.Zones.Get(tx, z)
		if err := exists(fmt.Sprintf("/zones/%d", i), err); err != nil {
			return nil, err
		}
	}
	for i, p := range want.Pools {
		if p.NodeGroupID == "" {
			continue
		}
		_, err := store.NodeGroups.Get(tx, p.NodeGroupID)
		if err := exists(fmt.Sprintf("/pools/%d/node_group_id", i), err); err != nil {
			return nil, err
		}
	}
	return problems, nil
}

// assignVIPs keeps the addresses of families that stay, allocates addresses for new families, and gives up the others.
func (a *API) assignVIPs(
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
			address, err := a.addressFor(tx, lb, want.Scheme, i, v)
			if err != nil {
				return nil, err
			}
			old = cloudv1.VIP{ID: newID("vip-"), Family: v.Family, Address: address}
		}
		old.Mode = v.Mode
		vips = append(vips, old)
	}
	return vips, nil
}

// addressFor assigns the address of a new VIP: the one that it asks for, or any.
func (a *API) addressFor(tx *store.Tx, lb *cloudv1.LoadBalancer, scheme string, vip int, v cloudv1.VIP) (string, error) {
	if v.Address != "" {
		return a.take(tx, scheme, vip, v, lb.ID)
	}
	return a.allocate(tx, scheme, v.Family, lb.ID)
}

// take gives a load balancer the address that it asks for, if that is in one of the pools, and free or reserved for it.
func (a *API) take(tx *store.Tx, scheme string, vip int, v cloudv1.VIP, loadBalancer string) (string, error) {
	pools, err := addressPools(tx)
	if err != nil {
		return "", err
	}
	address, invalid := netip.ParseAddr(v.Address)
	if invalid != nil || !slices.ContainsFunc(pools, func(p balancer.AddressPool) bool {
		return p.Scheme == scheme && p.Family == v.Family && p.Has(address)
	}) {
		return "", failure.InvalidField(fmt.Sprintf("/vips/%d/address", vip),
			"must be an address of a pool of scheme %s and family %s; got %q", scheme, v.Family, v.Address)
	}
	x, err := store.Addresses.Get(tx, address.String())
	if _, free := errors.AsType[*store.NotFoundError](err); free {
		return assign(tx, address, loadBalancer)
	}
	if err != nil {
		return "", err
	}
	switch holders, err := a.holders(tx); {
	case err != nil:
		return "", err
	case x.State != cloudv1.AddressReserved:
		return "", failure.New(http.StatusConflict, cloudv1.CodeAddressTaken, "address %s is in use", address)
	case x.LoadBalancerID != loadBalancer:
		return "", failure.New(http.StatusConflict, cloudv1.CodeAddressTaken,
			"address %s is reserved until the edges %s have confirmed that they no longer serve it", address,
			strings.Join(holders(x), ", "))
	}
	return assign(tx, address, loadBalancer)
}

// assign gives an address to a load balancer.
func assign(tx *store.Tx, address netip.Addr, loadBalancer string) (string, error) {
	id := address.String()
	_, err := store.Addresses.Put(tx, &cloudv1.Address{
		Object: cloudv1.Object{ID: id, Name: id}, LoadBalancerID: loadBalancer, State: cloudv1.AddressAssigned,
	})
	return id, err
}

// addressPools returns the pools of addresses in their order.
func addressPools(tx *store.Tx) ([]balancer.AddressPool, error) {
	all, err := store.AddressPools.All(tx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.Pair) int { return strings.Compare(a.Value, b.Value) })
	pools := make([]balancer.AddressPool, 0, len(all))
	for _, p := range all {
		pool, err := balancer.ParseAddressPool(p.Key)
		if err != nil {
			return nil, err
		}
		pools = append(pools, pool)
	}
	return pools, nil
}
