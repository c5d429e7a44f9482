package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// TestAddressesOfAnOlderState checks that the addresses of a state that was written before they were objects are kept.
func TestAddressesOfAnOlderState(t *testing.T) {
	s, clock, path := open(t)
	update(t, s, func(tx *Tx) error {
		for _, address := range []string{"203.0.113.1", "203.0.113.2"} {
			if err := addressOwners.Set(tx, address, "lb-1"); err != nil {
				return err
			}
		}
		return addressesGivenUp.Set(tx, "lb-1/203.0.113.2", "")
	})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = Open(path, clock); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		got := map[string]string{}
		err = s.View(func(tx *Tx) error {
			return Addresses.Each(tx, func(a *cloudv1.Address) error {
				got[a.ID] = a.LoadBalancerID + " " + a.State
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"203.0.113.1": "lb-1 assigned", "203.0.113.2": "lb-1 reserved"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}
