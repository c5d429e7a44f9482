package balancer

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// AddressPool is a range of addresses for load balancers.
type AddressPool struct {
	// Scheme is public or internal, Family ipv4 or ipv6.
	Scheme, Family string
	Prefix         netip.Prefix
}

// Key returns the pool's key in the stored state.
func (p AddressPool) Key() string { return fmt.Sprintf("%s/%s/%s", p.Scheme, p.Family, p.Prefix) }

// ParseAddressPool returns the pool with a key.
func ParseAddressPool(key string) (AddressPool, error) {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) < 3 {
		return AddressPool{}, fmt.Errorf("address pool %q: must be scheme/family/prefix", key)
	}
	prefix, err := netip.ParsePrefix(parts[2])
	if err != nil {
		return AddressPool{}, fmt.Errorf("address pool %q: %w", key, err)
	}
	return AddressPool{Scheme: parts[0], Family: parts[1], Prefix: prefix}, nil
}

// maxTries limits the search in an address space that is too large to walk.
const maxTries = 1 << 16

// Has reports whether an address may be that of a load balancer.
func (p AddressPool) Has(a netip.Addr) bool {
	return p.usable(a) && (a != p.Prefix.Addr() || p.Prefix.Bits() >= a.BitLen()-1)
}

// Next returns the first free address after the one allocated last and starts over at the end of the pool, so that a
// released address is not reused immediately. It returns false if all addresses are in use.
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

// usable reports whether a is in the pool and not an IPv4 broadcast address.
func (p AddressPool) usable(a netip.Addr) bool {
	if !p.Prefix.Contains(a) {
		return false
	}
	broadcast := a.Is4() && p.Prefix.Bits() < 31 && !p.Prefix.Contains(a.Next())
	return !broadcast
}

// Size returns the number of addresses that can be allocated.
func (p AddressPool) Size() float64 {
	bits := p.Prefix.Addr().BitLen() - p.Prefix.Bits()
	size := math.Exp2(float64(bits))
	if bits > 1 {
		size--
		if p.Prefix.Addr().Is4() {
			size--
		}
	}
	return size
}
