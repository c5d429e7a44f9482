package balancer

import (
	"fmt"
	"net/netip"
)

// AddressPool is where the addresses of load balancers come from.
type AddressPool struct {
	// Scheme is public or internal, Family ipv4 or ipv6.
	Scheme, Family string
	Prefix         netip.Prefix
}

// Key names the pool where its state is kept.
func (p AddressPool) Key() string { return fmt.Sprintf("%s/%s/%s", p.Scheme, p.Family, p.Prefix) }

// maxTries bounds the search in an address space too large to walk.
const maxTries = 1 << 16

// Next gives the first free address after the one given out last, round the pool, so that an address rests before it is
// used again. It says false if all are in use.
func (p AddressPool) Next(last netip.Addr, inUse func(netip.Addr) bool) (netip.Addr, bool) {
	first := p.Prefix.Addr()
	if p.Prefix.Bits() < first.BitLen()-1 {
		// The first address is the network's own (or the subnet's anycast address).
		first = first.Next()
	}
	start := first
	if p.Prefix.Contains(last) && p.usable(last.Next()) {
		start = last.Next()
	}
	a := start
	for range maxTries {
		if !inUse(a) {
			return a, true
		}
		if a = a.Next(); !p.usable(a) {
			a = first
		}
		if a == start {
			break
		}
	}
	return netip.Addr{}, false
}

// usable tells whether a is in the pool and not the broadcast address of IPv4.
func (p AddressPool) usable(a netip.Addr) bool {
	if !p.Prefix.Contains(a) {
		return false
	}
	broadcast := a.Is4() && p.Prefix.Bits() < 31 && !p.Prefix.Contains(a.Next())
	return !broadcast
}
