package store

import (
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// The indexes of a state that was written before addresses were objects: the owner of each address, and a key for each
// address that its owner had given up.
const (
	addressOwners    Index = "addresses"
	addressesGivenUp Index = "leaving-addresses"
)

// moveAddresses turns those indexes into objects.
func moveAddresses(tx *Tx) error {
	owners, err := addressOwners.All(tx)
	if err != nil {
		return err
	}
	for _, p := range owners {
		a := &cloudv1.Address{
			Object: cloudv1.Object{ID: p.Key, Name: p.Key}, LoadBalancerID: p.Value, State: cloudv1.AddressAssigned,
		}
		if len(addressesGivenUp.Prefixed(tx, p.Value+"/"+p.Key)) > 0 {
			a.State, a.ReservedAt = cloudv1.AddressReserved, &tx.Now
		}
		if _, err := Addresses.Put(tx, a); err != nil {
			return err
		}
	}
	for _, i := range []Index{addressOwners, addressesGivenUp} {
		if err := tx.deleteBucket(string(i)); err != nil {
			return fmt.Errorf("delete index %s: %w", i, err)
		}
	}
	return nil
}
