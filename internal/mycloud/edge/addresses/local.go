//go:build linux

package addresses

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

	"quaymaster.dev/internal/durable"
)

// Local makes the machine answer for the addresses of load balancers.
type Local struct {
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
	file durable.JSON
}

// Own returns the addresses that are those of load balancers, also those that an earlier agent has left.
func (l *Local) Own() ([]netip.Addr, error) {
	err := l.load()
	return slices.Clone(l.own), err
}

// load reads which addresses are its own, once.
func (l *Local) load() error {
	if l.file.Path != "" {
		return nil
	}
	l.file.Path = filepath.Join(l.Dir, "addresses.json")
	if err := l.file.Load(&l.own); err != nil {
		return fmt.Errorf("read own addresses: %w", err)
	}
	return nil
}

// Apply adds and removes addresses until the machine has exactly these, apart from those that it has from others. It
// returns those that it could not add or remove, and an error if something else failed.
func (l *Local) Apply(_ context.Context, wanted []netip.Addr) (failed map[netip.Addr]error, err error) {
	var errs []error
	if err := l.load(); err != nil {
		// Addresses of the agent before this one stay, which matters less than those that are wanted.
		errs = append(errs, err)
	}
	link, err := netlink.LinkByName(cmp.Or(l.Interface, "lo"))
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
	errs = append(errs, l.dropPools())
	// What is added is noted first, so that an interruption leaves no address that is never removed.
	for _, address := range wanted {
		if !has[address] && !slices.Contains(l.own, address) {
			l.own = append(l.own, address)
		}
	}
	errs = append(errs, l.file.Save(l.own))
	failed = map[netip.Addr]error{}
	for _, address := range wanted {
		if !has[address] {
			if err := netlink.AddrAdd(link, single(address)); err != nil {
				failed[address] = err
			}
		}
	}
	l.own = slices.DeleteFunc(l.own, func(address netip.Addr) bool {
		if slices.Contains(wanted, address) {
			return false
		}
		err := netlink.AddrDel(link, single(address))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			failed[address] = fmt.Errorf("remove it: %w", err)
			return false
		}
		return true
	})
	return failed, errors.Join(append(errs, l.file.Save(l.own))...)
}

func single(address netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, address.BitLen())), Flags: unix.IFA_F_NODAD}
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func (l *Local) dropPools() error {
	for _, pool := range l.Pools {
		route := &netlink.Route{Dst: ipNet(pool), Type: unix.RTN_BLACKHOLE, Protocol: unix.RTPROT_STATIC}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("add route for pool %s: %w", pool, err)
		}
	}
	return nil
}
