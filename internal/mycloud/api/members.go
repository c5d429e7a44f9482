package api

import (
	"fmt"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/store"
)

// memberAddress is the address of a member in a request, and the pointer to it.
type memberAddress struct{ pointer, address string }

// checkMembers returns the problems of addresses to which edges must not send traffic or probes. Addresses that the object
// has already are accepted: an update must not fail because an instance was deleted or an edge was added.
func (a *API) checkMembers(tx *store.Tx, had, want []memberAddress) ([]cloudv1.ProblemField, error) {
	known := make(map[string]bool, len(had))
	for _, m := range had {
		known[m.address] = true
	}
	want = slices.DeleteFunc(want, func(m memberAddress) bool { return known[m.address] })
	if len(want) == 0 {
		return nil, nil
	}
	problemOf, err := a.memberProblems(tx)
	if err != nil {
		return nil, err
	}
	var problems []cloudv1.ProblemField
	for _, m := range want {
		if problem := problemOf(m.address); problem != "" {
			problems = append(problems, cloudv1.ProblemField{Pointer: m.pointer, Code: cloudv1.CodeInvalid, Detail: problem})
		}
	}
	return problems, nil
}

// memberProblems returns the function that returns why no member may have an address, or an empty string. It must be an
// address that balancer.MemberProblem accepts.
func (a *API) memberProblems(tx *store.Tx) (func(string) string, error) {
	pools, err := addressPools(tx)
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
	anywhere := len(a.MemberNetworks) == 0 && store.Instances.Count(tx) == 0
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
		case slices.ContainsFunc(a.ProtectedNetworks, contains):
			return fmt.Sprintf("must not be in a protected network of the cloud, as %s is", address)
		case anywhere, slices.ContainsFunc(a.MemberNetworks, contains):
			return ""
		case len(a.MemberNetworks) > 0:
			return fmt.Sprintf("must be the address of an instance, or in one of the networks %v; %s is neither", a.MemberNetworks, address)
		}
		return fmt.Sprintf("must be the address of an instance; %s is not", address)
	}, err
}

// poolAddresses returns the addresses of the members of pools.
func poolAddresses(pools []cloudv1.Pool) []memberAddress {
	var all []memberAddress
	for i := range pools {
		for j := range pools[i].Members {
			all = append(all, memberAddress{fmt.Sprintf("/pools/%d/members/%d/address", i, j), pools[i].Members[j].Address})
		}
	}
	return all
}

// groupAddresses returns the addresses of members of a node group in a list at a pointer.
func groupAddresses(at string, members []cloudv1.GroupMember) []memberAddress {
	var all []memberAddress
	for i := range members {
		for j, address := range members[i].Addresses {
			all = append(all, memberAddress{fmt.Sprintf("%s/%d/addresses/%d/address", at, i, j), address.Address})
		}
	}
	return all
}
