//go:build linux

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses makes the machine answer for the addresses of load balancers.
type Addresses struct {
	// Dir is the directory in which it keeps which addresses are its own.
	Dir string
	// Interface gets the addresses; it defaults to lo. If the addresses are not announced to a router, it must be the one
	// that clients are on: IPv6 neighbors find addresses of that interface only.
	Interface string
	// Pools are the networks of which load balancers get addresses. Packets for others of their addresses are dropped
	// silently: clients take "network unreachable" for a permanent answer.
	Pools []netip.Prefix
}

// Apply adds and removes addresses until the machine has exactly these, apart from those that it has from others.
func (a *Addresses) Apply(_ context.Context, wanted []netip.Addr) error {
	file := store{path: filepath.Join(a.Dir, "addresses.json")}
	var own []netip.Addr
	if err := file.load(&own); err != nil {
		return fmt.Errorf("read own addresses: %w", err)
	}
	link, err := netlink.LinkByName(cmp.Or(a.Interface, "lo"))
	if err != nil {
		return fmt.Errorf("find interface for addresses: %w", err)
	}
	existing, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	has := map[netip.Addr]bool{}
	for _, e := range existing {
		if address, ok := netip.AddrFromSlice(e.IP); ok {
			has[address.Unmap()] = true
		}
	}
	if err := a.dropPools(); err != nil {
		return err
	}
	// What is added is noted first, so that an interruption leaves no address that is never removed.
	for _, address := range wanted {
		if !has[address] && !slices.Contains(own, address) {
			own = append(own, address)
		}
	}
	saved := file.save(own)
	var kept []netip.Addr
	for _, address := range wanted {
		if !has[address] {
			if err := netlink.AddrAdd(link, single(address)); err != nil {
				return fmt.Errorf("add address %s: %w", address, err)
			}
		}
	}
	for _, address := range own {
		if slices.Contains(wanted, address) {
			kept = append(kept, address)
			continue
		}
		if err := netlink.AddrDel(link, single(address)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s: %w", address, err)
		}
	}
	return errors.Join(saved, file.save(kept))
}

func single(address netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, address.BitLen())), Flags: unix.IFA_F_NODAD}
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func (a *Addresses) dropPools() error {
	for _, pool := range a.Pools {
		route := &netlink.Route{Dst: ipNet(pool), Type: unix.RTN_BLACKHOLE, Protocol: unix.RTPROT_STATIC}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("add route for pool %s: %w", pool, err)
		}
	}
	return nil
}
