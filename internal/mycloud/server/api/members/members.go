// Package members decides which addresses the members of load balancers and node groups may have.
package members

import (
	"fmt"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Max is how many members a pool, a node group or a change of either may have.
const Max = 1000

// Rules limit the addresses of members besides those of instances.
type Rules struct {
	// Networks are the networks that members may have addresses of.
	Networks []netip.Prefix
	// Protected are networks that no member may have an address of, such as those of routers.
	Protected []netip.Prefix
}

// Address is the address of a member in a request, and the pointer to it.
type Address struct{ Pointer, Address string }

// Check returns the problems of addresses to which edges must not send traffic or probes. Addresses that the object
// has already are accepted: an update must not fail because an instance was deleted or an edge was added.
func (r Rules) Check(tx *store.Tx, had, want []Address) ([]cloudv1.ProblemField, error) {
	known := make(map[string]bool, len(had))
	for _, m := range had {
		known[m.Address] = true
	}
	want = slices.DeleteFunc(want, func(m Address) bool { return known[m.Address] })
	if len(want) == 0 {
		return nil, nil
	}
	problemOf, err := r.problems(tx)
	if err != nil {
		return nil, err
	}
	var problems []cloudv1.ProblemField
	for _, m := range want {
		if problem := problemOf(m.Address); problem != "" {
			problems = append(problems, cloudv1.ProblemField{Pointer: m.Pointer, Code: cloudv1.CodeInvalid, Detail: problem})
		}
	}
	return problems, nil
}

// problems returns the function that returns why no member may have an address, or an empty string. It must be an
// address that balancer.MemberProblem accepts.
func (r Rules) problems(tx *store.Tx) (func(string) string, error) {
	pools, err := addresses.Pools(tx)
	if err != nil {
		return nil, err
	}
	edges := map[netip.Addr]string{}
	err = store.Edges.Each(tx, func(e *cloudv1.Edge) error {
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				edges[address] = e.Name
			}
		}
		return nil
	})
	// A cloud that manages no machines does not know where they are.
	anywhere := len(r.Networks) == 0 && store.Instances.Count(tx) == 0
	return func(text string) string {
		address, _ := netip.ParseAddr(text)
		contains := func(network netip.Prefix) bool { return network.Contains(address) }
		switch {
		case slices.ContainsFunc(pools, func(p balancer.AddressPool) bool { return contains(p.Prefix) }):
			return fmt.Sprintf("must not be in an address pool of load balancers, as %s is", address)
		case edges[address] != "":
			return fmt.Sprintf("must not be the address of an edge; %s is that of %q", address, edges[address])
		case len(store.Instances.Find(tx, store.AddressTerm(address.String()))) > 0:
			return ""
		case slices.ContainsFunc(r.Protected, contains):
			return fmt.Sprintf("must not be in a protected network of the cloud, as %s is", address)
		case anywhere, slices.ContainsFunc(r.Networks, contains):
			return ""
		case len(r.Networks) > 0:
			return fmt.Sprintf("must be the address of an instance, or in one of the networks %v; %s is neither", r.Networks, address)
		}
		return fmt.Sprintf("must be the address of an instance; %s is not", address)
	}, err
}
