// Package addresses gives addresses to load balancers, and reserves those that they give up until no edge serves them any more.
package addresses

import (
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

// capacityPause is the time after which an address may have become free.
const capacityPause = time.Minute

// Addresses knows which edges may still serve an address.
type Addresses struct {
	// Edges are the registered edges with what they have applied.
	Edges *edges.Registry
}

// Register adds the operations of addresses.
func (a *Addresses) Register(r *read.Reader) {
	read.RegisterList(r, operation.New("list-addresses", "load-balancers", "Addresses in use, and who holds those that were given up"),
		"/v1/addresses", read.View[cloudv1.Address]{
			Kind: store.Addresses, State: func(x *cloudv1.Address) string { return x.State }, Show: a.show,
		},
		describe.Means("An address that a load balancer gives up is reserved until every registered edge, offline ones included, has "+
			"confirmed that it no longer serves it, or was deleted."))
}

// show adds the edges that hold an address.
func (a *Addresses) show(tx *store.Tx) func(*cloudv1.Address) error {
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
func (a *Addresses) holders(tx *store.Tx) (func(*cloudv1.Address) []string, error) {
	type registered struct {
		name     string
		reported *edges.Edge
	}
	var all []registered
	err := store.Edges.Each(tx, func(e *cloudv1.Edge) error {
		all = append(all, registered{e.Name, a.Edges.Get(e.ID)})
		return nil
	})
	return func(x *cloudv1.Address) []string {
		var names []string
		for _, e := range all {
			// The address was reserved in the transaction that changed the load balancer.
			if e.reported == nil || e.reported.Applied < edges.Number(x.Revision) || len(e.reported.FaultsOf(x.LoadBalancerID)) > 0 {
				names = append(names, e.name)
			}
		}
		return names
	}, err
}

// Reserve reserves the addresses of a load balancer that are not among its VIPs. It must be called after the load
// balancer was written: an edge that has applied the revision of the address has applied that change, too.
func Reserve(tx *store.Tx, loadBalancer string, vips []cloudv1.VIP) error {
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

// Free frees the reserved addresses that no edge holds.
func (a *Addresses) Free(tx *store.Tx) error {
	free, err := a.Unheld(tx)
	for _, address := range free {
		if err := store.Addresses.Delete(tx, address); err != nil {
			return err
		}
	}
	return err
}

// Unheld returns the reserved addresses that no edge holds.
func (a *Addresses) Unheld(tx *store.Tx) ([]string, error) {
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
