package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/edges"
	"quaymaster.dev/internal/mycloud/store"
)

// capacityPause is the time after which an address may have become free.
const capacityPause = time.Minute

func (a *API) registerAddresses() {
	registerList(a, operation{"list-addresses", "load-balancers", "Addresses in use, and who holds those that were given up"},
		"/v1/addresses", view[cloudv1.Address]{
			kind: store.Addresses, state: func(x *cloudv1.Address) string { return x.State }, show: a.showAddresses,
		},
		means("An address that a load balancer gives up is reserved until every registered edge, offline ones included, has "+
			"confirmed that it no longer serves it, or was deleted."))
}

// showAddresses adds the edges that hold an address.
func (a *API) showAddresses(tx *store.Tx) func(*cloudv1.Address) error {
	holders, err := a.holders(tx)
	return func(x *cloudv1.Address) error {
		if err == nil && x.State == cloudv1.AddressReserved {
			x.HeldBy = holders(x)
		}
		return err
	}
}

// holders returns the function that returns the names of the edges that may serve a reserved address. What an edge has
// applied is forgotten when the server stops, so that it holds the address until its next heartbeat.
func (a *API) holders(tx *store.Tx) (func(*cloudv1.Address) []string, error) {
	type registered struct {
		name     string
		reported *edges.Edge
	}
	var all []registered
	err := store.Edges.Each(tx, func(e *cloudv1.Edge) error {
		all = append(all, registered{e.Name, a.edges.Get(e.ID)})
		return nil
	})
	return func(x *cloudv1.Address) []string {
		var names []string
		for _, e := range all {
			// The address was reserved in the transaction that changed the load balancer.
			if e.reported == nil || e.reported.Applied < number(x.Revision) || len(e.reported.FaultsOf(x.LoadBalancerID)) > 0 {
				names = append(names, e.name)
			}
		}
		return names
	}, err
}

// reserveAddresses reserves the addresses of a load balancer that are not among its VIPs. It must be called after the load
// balancer was written: an edge that has applied the revision of the address has applied that change, too.
func reserveAddresses(tx *store.Tx, loadBalancer string, vips []cloudv1.VIP) error {
	had, err := store.Addresses.Having(tx, store.ReferenceTerm(store.LoadBalancers.Name, loadBalancer))
	if err != nil {
		return err
	}
	for _, x := range had {
		kept := slices.ContainsFunc(vips, func(v cloudv1.VIP) bool { return v.Address == x.ID })
		if kept || x.State == cloudv1.AddressReserved {
			continue
		}
		x.State, x.ReservedAt = cloudv1.AddressReserved, &tx.Now
		if _, err := store.Addresses.Put(tx, x); err != nil {
			return err
		}
	}
	return nil
}

// freeAddresses frees the reserved addresses that no edge holds.
func (a *API) freeAddresses(tx *store.Tx) error {
	free, err := a.unheldAddresses(tx)
	for _, address := range free {
		if err := store.Addresses.Delete(tx, address); err != nil {
			return err
		}
	}
	return err
}

func (a *API) unheldAddresses(tx *store.Tx) ([]string, error) {
	reserved, err := store.Addresses.Having(tx, store.ReservedTerm)
	if err != nil || len(reserved) == 0 {
		return nil, err
	}
	holders, err := a.holders(tx)
	if err != nil {
		return nil, err
	}
	var free []string
	for _, x := range reserved {
		if len(holders(x)) == 0 {
			free = append(free, x.ID)
		}
	}
	return free, nil
}

// allocate returns an address for a load balancer: one that it gave up and that is still reserved, so that no load balancer
// can reserve many, or a free one of the first pool that has one.
func (a *API) allocate(tx *store.Tx, scheme, family, loadBalancer string) (string, error) {
	had, err := store.Addresses.Having(tx, store.ReferenceTerm(store.LoadBalancers.Name, loadBalancer))
	if err != nil {
		return "", err
	}
	for _, x := range had {
		// Only addresses are stored.
		if address, _ := netip.ParseAddr(x.ID); balancer.Family(address) == family {
			return assign(tx, address, loadBalancer)
		}
	}
	pools, err := addressPools(tx)
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
func (a *API) describeReserved(tx *store.Tx, pools []balancer.AddressPool) (string, error) {
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

// PoolUse is how many addresses of a pool are in use.
type PoolUse struct {
	Pool               balancer.AddressPool
	Assigned, Reserved int
}

// AddressUse returns how many addresses of each pool are in use.
func (a *API) AddressUse() ([]PoolUse, error) {
	var all []PoolUse
	err := a.Store.View(func(tx *store.Tx) error {
		pools, err := addressPools(tx)
		if err != nil {
			return err
		}
		for _, p := range pools {
			all = append(all, PoolUse{Pool: p})
		}
		return store.Addresses.Each(tx, func(x *cloudv1.Address) error {
			// Only addresses are stored.
			address, _ := netip.ParseAddr(x.ID)
			i := slices.IndexFunc(all, func(u PoolUse) bool { return u.Pool.Prefix.Contains(address) })
			switch {
			case i < 0:
			case x.State == cloudv1.AddressReserved:
				all[i].Reserved++
			default:
				all[i].Assigned++
			}
			return nil
		})
	})
	return all, err
}
