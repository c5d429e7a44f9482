package addresses

import (
	"net/netip"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Pools returns the pools of addresses in their order.
func Pools(tx *store.Tx) ([]balancer.AddressPool, error) {
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

// Use is how many addresses of a pool are in use.
type Use struct {
	Pool               balancer.AddressPool
	Assigned, Reserved int
}

// UseOf returns how many addresses of each pool are in use.
func UseOf(s store.Store) (all []Use, err error) {
	err = s.View(func(tx *store.Tx) (err error) {
		all, err = UseIn(tx)
		return err
	})
	return all, err
}

// UseIn is UseOf in a transaction.
func UseIn(tx *store.Tx) ([]Use, error) {
	pools, err := Pools(tx)
	if err != nil {
		return nil, err
	}
	all := make([]Use, 0, len(pools))
	for _, p := range pools {
		all = append(all, Use{Pool: p})
	}
	err = store.Addresses.Each(tx, func(x *cloudv1.Address) error {
		// Only addresses are stored.
		address, _ := netip.ParseAddr(x.ID)
		i := slices.IndexFunc(all, func(u Use) bool { return u.Pool.Prefix.Contains(address) })
		switch {
		case i < 0:
		case x.State == cloudv1.AddressReserved:
			all[i].Reserved++
		default:
			all[i].Assigned++
		}
		return nil
	})
	return all, err
}
