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

	// own are the addresses that it has added.
	own  []netip.Addr
	file store
}

// Apply adds and removes addresses until the machine has exactly these, apart from those that it has from others. It
// returns those that it could not add, and an error if something else failed.
func (a *Addresses) Apply(_ context.Context, wanted []netip.Addr) (missing map[netip.Addr]error, err error) {
	var failed []error
	if a.file.path == "" {
		a.file.path = filepath.Join(a.Dir, "addresses.json")
		if err := a.file.load(&a.own); err != nil {
			// Addresses of the agent before this one stay, which matters less than those that are wanted.
			failed = append(failed, fmt.Errorf("read own addresses: %w", err))
		}
	}
	link, err := netlink.LinkByName(cmp.Or(a.Interface, "lo"))
	if err != nil {
		return nil, fmt.Errorf("find interface for addresses: %w", err)
	}
	existing, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	has := map[netip.Addr]bool{}
	for _, e := range existing {
		if address, ok := netip.AddrFromSlice(e.IP); ok {
			has[address.Unmap()] = true
		}
	}
	failed = append(failed, a.dropPools())
	// What is added is noted first, so that an interruption leaves no address that is never removed.
	for _, address := range wanted {
		if !has[address] && !slices.Contains(a.own, address) {
			a.own = append(a.own, address)
		}
	}
	failed = append(failed, a.file.save(a.own))
	missing = map[netip.Addr]error{}
	for _, address := range wanted {
		if !has[address] {
			if err := netlink.AddrAdd(link, single(address)); err != nil {
				missing[address] = err
			}
		}
	}
	a.own = slices.DeleteFunc(a.own, func(address netip.Addr) bool {
		if slices.Contains(wanted, address) {
			return false
		}
		err := netlink.AddrDel(link, single(address))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			failed = append(failed, fmt.Errorf("remove address %s: %w", address, err))
			return false
		}
		return true
	})
	return missing, errors.Join(append(failed, a.file.save(a.own))...)
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
