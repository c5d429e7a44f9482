package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// lock keeps a second agent from changing what the first one has applied: the rules are those of the network namespace,
// and so is the name of the socket, which goes with the process.
func lock(ctx context.Context) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", "@mycloud-edge")
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.New("another mycloud edge runs on this machine; stop it first")
	}
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	return l, nil
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

// reserved returns the addresses that load balancers must not have, because the edge could not reach the API or be
// reached itself any more.
func (o *edgeOptions) reserved(ctx context.Context) map[netip.Addr]string {
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
	// Those of load balancers have the longest prefixes, also those that an earlier agent has left.
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.IsSingleIP() {
			found[p.Addr()] = machine
		}
	}
	endpoint, err := url.Parse(o.endpoint)
	if err != nil {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	// The API may be away, and so may be the servers that know its name.
	servers, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", endpoint.Hostname())
	for _, server := range servers {
		found[server.Unmap()] = "the API"
	}
	return found
}
