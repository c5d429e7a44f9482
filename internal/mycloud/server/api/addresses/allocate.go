package addresses

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Assign assigns the address of a new VIP: the one that it asks for, or any.
func (a *Addresses) Assign(tx *store.Tx, lb, scheme string, vip int, v cloudv1.VIP) (string, error) {
	if v.Address != "" {
		return a.take(tx, scheme, vip, v, lb)
	}
	return a.allocate(tx, scheme, v.Family, lb)
}

// take gives a load balancer the address that it asks for, if that is in one of the pools, and free or reserved for it.
func (a *Addresses) take(tx *store.Tx, scheme string, vip int, v cloudv1.VIP, loadBalancer string) (string, error) {
	pools, err := Pools(tx)
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

// allocate returns an address for a load balancer: one that it gave up and that is still reserved, so that no load balancer
// can reserve many, or a free one of the first pool that has one.
func (a *Addresses) allocate(tx *store.Tx, scheme, family, loadBalancer string) (string, error) {
	had, err := store.Addresses.Having(tx, store.ReferenceTerm(store.LoadBalancers.Name, loadBalancer))
	if err != nil {
		return "", err
	}
	for _, x := range had {
		// Only addresses are stored.
		if address, _ := netip.ParseAddr(x.ID); cloudv1.FamilyOf(address) == family {
			return assign(tx, address, loadBalancer)
		}
	}
	pools, err := Pools(tx)
	if err != nil {
		return "", err
	}
	pools = slices.DeleteFunc(pools, func(p balancer.AddressPool) bool { return p.Scheme != scheme || p.Family != family })
	for _, pool := range pools {
		// A pool without allocations has no last address; the zero address is in no pool.
		last, _ := netip.ParseAddr(store.AddressCursors.Get(tx, pool.Key()))
		next, ok := pool.Next(last, func(addr netip.Addr) bool { return store.Addresses.Has(tx, addr.String()) })
		if !ok {
			continue
		}
		if err := store.AddressCursors.Set(tx, pool.Key(), next.String()); err != nil {
			return "", err
		}
		return assign(tx, next, loadBalancer)
	}
	reserved, err := a.describeReserved(tx, pools)
	if err != nil {
		return "", err
	}
	return "", failure.New(http.StatusServiceUnavailable, cloudv1.CodeCapacity, "no %s address of family %s is free%s",
		scheme, family, reserved).RetryAfter(capacityPause)
}

// describeReserved returns how many addresses of pools are reserved and who holds them; empty if there are none.
func (a *Addresses) describeReserved(tx *store.Tx, pools []balancer.AddressPool) (string, error) {
	reserved, err := store.Addresses.Having(tx, store.ReservedTerm)
	if err != nil {
		return "", err
	}
	holders, err := a.holders(tx)
	if err != nil {
		return "", err
	}
	n := 0
	var names []string
	for _, x := range reserved {
		// Only addresses are stored.
		address, _ := netip.ParseAddr(x.ID)
		if slices.ContainsFunc(pools, func(p balancer.AddressPool) bool { return p.Prefix.Contains(address) }) {
			n++
			names = append(names, holders(x)...)
		}
	}
	if n == 0 {
		return "", nil
	}
	slices.Sort(names)
	return fmt.Sprintf("; %d are reserved until the edges %s have confirmed that they no longer serve them", n,
		strings.Join(slices.Compact(names), ", ")), nil
}
