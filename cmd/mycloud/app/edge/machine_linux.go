package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"quaymaster.dev/internal/mycloud/edge/kernel"
)

// lock keeps a second agent from changing what the first one has applied: the rules are those of the network namespace,
// and so is the file, which only root can lock. The lock goes with the process.
func lock() (*os.File, error) {
	namespace, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	var inode uint64
	if info, ok := namespace.Sys().(*syscall.Stat_t); ok {
		inode = info.Ino
	}
	f, err := os.OpenFile(fmt.Sprintf("/run/mycloud-edge-%d.lock", inode), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another mycloud edge runs on this machine; stop it first")
		}
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	return f, nil
}

// leaveTimeout limits how long a machine that is stopping waits for its traffic to go to other edges.
const leaveTimeout = 10 * time.Second

// stopping reports whether systemd is stopping the machine, so that the engines stop as well.
func stopping(ctx context.Context) bool {
	// It fails in every state but "running".
	state, _ := exec.CommandContext(ctx, "systemctl", "is-system-running").Output()
	return strings.TrimSpace(string(state)) == "stopping"
}

// lookupTimeout limits how long the start waits for the name of the API.
const lookupTimeout = 5 * time.Second

// isOwnAddress returns whether an address of the machine is that of a load balancer. If it is not known which are, those
// with the longest prefixes may be.
func isOwnAddress(own []netip.Addr, err error) func(netip.Prefix) bool {
	return func(p netip.Prefix) bool {
		return slices.Contains(own, p.Addr()) || err != nil && p.IsSingleIP()
	}
}

// reserved returns the addresses that neither load balancers nor members must have: the edge could not reach the API or
// be reached itself any more, or clients would reach what is not for them. The machine has those of load balancers, too.
func (o *options) reserved(isOwn func(netip.Prefix) bool) map[netip.Addr]string {
	const machine = "the machine itself"
	found := map[netip.Addr]string{}
	for _, a := range o.bgp.Sources {
		found[a] = machine
	}
	for _, p := range o.bgp.Peers {
		found[p.Address] = "a BGP peer"
	}
	for _, a := range o.vrrp.Peers {
		found[a] = "another edge"
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !isOwn(p) {
			found[p.Addr()] = machine
		}
	}
	for _, router := range kernel.Routers() {
		found[router] = "a router"
	}
	return found
}

// api returns the addresses of the API, as far as they are known.
func (o *options) api(ctx context.Context) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var found []netip.Addr
	for _, text := range o.cloud.Endpoints() {
		endpoint, err := url.Parse(text)
		if err != nil {
			continue
		}
		// The API may be away, and so may be the servers that know its name.
		servers, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", endpoint.Hostname())
		for _, server := range servers {
			found = append(found, server.Unmap())
		}
	}
	return found
}
