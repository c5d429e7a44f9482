package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/harness/edgenet"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

const (
	// backendPort is where the backends of Nodes listen. Whatever arrives for a load balancer, a node port or the health
	// port of kube-proxy is redirected to it.
	backendPort = 8080
	// lastOctet is that of the edge's address in the network of the Nodes.
	lastOctet = 254
	// edgeLimit limits the wait for the edge.
	edgeLimit = 30 * time.Second
)

// traffic is a network with an edge and a machine for each instance, so that load balancers answer.
type traffic struct {
	network *edgenet.Topology
	agent   *process.Process
	servers []*http.Server
	// cleanup removes what outlives the network.
	cleanup []func()
}

// lacking returns what the machine lacks for traffic, or an empty string.
func lacking() string {
	if os.Geteuid() != 0 {
		return "root"
	}
	var missing []string
	for _, program := range []string{"nft", "haproxy", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return strings.Join(missing, ", ")
	}
	if route, used, err := edgenet.Routed(edgenet.Networks()...); err != nil || used {
		return "the ranges of the network of edges, of which it has a route to " + route.String()
	}
	return ""
}

// ranges are the candidates for each IPv4 range of load balancers in the example inventory. The first that this machine
// has no route to is taken, so that nothing else becomes unreachable.
var ranges = map[string][]string{
	"203.0.113.0/24": {"203.0.113.0/28", "192.0.2.0/28", "198.18.113.0/28", "198.19.113.0/28"},
	"10.0.8.0/22":    {"10.0.8.0/28", "10.254.8.0/28", "172.31.248.0/28", "192.168.248.0/28"},
}

// chooseRanges writes the inventory with ranges of load balancers that this machine has no route to, unless a former run
// whose state is kept has done so.
func (d *demo) chooseRanges() (file string, err error) {
	file = filepath.Join(d.dir.state(), "inventory.yaml")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	text, err := d.example("inventory.yaml")
	if err != nil {
		return "", err
	}
	for _, given := range slices.Sorted(maps.Keys(ranges)) {
		free := slices.IndexFunc(ranges[given], func(candidate string) bool {
			_, used, err := edgenet.Routed(netip.MustParsePrefix(candidate))
			return err == nil && !used
		})
		if free < 0 {
			return "", fmt.Errorf("this machine has routes to all of %s, which load balancers could have; remove one, or run as another user than root",
				strings.Join(ranges[given], ", "))
		}
		d.step("taking " + ranges[given][free] + " for load balancers: this machine gets a route to it until the demonstration ends")
		text = strings.ReplaceAll(text, given, ranges[given][free])
	}
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// startTraffic starts the edge in a network of namespaces, to which this machine has routes.
func (d *demo) startTraffic(ctx context.Context) (err error) {
	t := &traffic{}
	d.traffic = t
	stock, err := inventory.Load(d.inventory)
	if err != nil {
		return err
	}
	if t.network, err = edgenet.Build(1, len(stock.Instances)); err != nil {
		return err
	}
	var pools []netip.Prefix
	for _, pool := range stock.AddressPools {
		if prefix, err := netip.ParsePrefix(pool.CIDR); err == nil && prefix.Addr().Is4() {
			pools = append(pools, prefix)
		}
	}
	host, err := t.network.JoinHost(pools...)
	if err != nil {
		return err
	}
	for i, instance := range stock.Instances {
		if err := t.startBackend(ctx, t.network.Nodes[i], instance.Hostname, internalAddress(instance), pools); err != nil {
			return fmt.Errorf("start the backend of %s: %w", instance.Hostname, err)
		}
	}
	endpoint, err := t.forward(ctx, host.Inner4, d.cloud.Endpoint)
	if err != nil {
		return err
	}
	return d.startEdge(ctx, endpoint, pools)
}

// internalAddress returns the address at which edges reach an instance.
func internalAddress(i inventory.Instance) netip.Addr {
	for _, a := range i.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == cloudv1.AddressInternal && parsed.Is4() {
			return parsed
		}
	}
	return netip.Addr{}
}

// startBackend gives a machine the address of its instance, and has it answer like a Node whose pods all serve the same
// page.
func (t *traffic) startBackend(
	ctx context.Context, m *edgenet.Machine, name string, address netip.Addr, pools []netip.Prefix,
) error {
	for _, machine := range []*edgenet.Machine{m, t.network.Edges[0]} {
		own := address
		if machine != m {
			bytes := own.As4()
			bytes[3] = lastOctet
			own = netip.AddrFrom4(bytes)
		}
		link, err := machine.Links.LinkByName(edgenet.Inner)
		if err != nil {
			return err
		}
		prefix := edgenet.IPNet(netip.PrefixFrom(own, 24))
		if err := machine.Links.AddrReplace(link, &netlink.Addr{IPNet: prefix}); err != nil {
			return err
		}
	}
	rules := &strings.Builder{}
	fmt.Fprintln(rules, "add table ip services\nadd chain ip services in { type nat hook prerouting priority dstnat; }")
	for _, pool := range pools {
		fmt.Fprintf(rules, "add rule ip services in ip daddr %s meta l4proto tcp redirect to :%d\n", pool, backendPort)
	}
	fmt.Fprintf(rules, "add rule ip services in tcp dport { 10256, 30000-32767 } redirect to :%d\n", backendPort)
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(rules.String())
	if err := m.Start(nft); err != nil {
		return err
	}
	if err := nft.Wait(); err != nil {
		return fmt.Errorf("nft: %w", err)
	}
	listener, err := m.Listen(ctx, "tcp", fmt.Sprintf(":%d", backendPort))
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = fmt.Fprintf(w, "hello %s from %s\n", client, name)
	})}
	t.servers = append(t.servers, server)
	go func() { _ = server.Serve(listener) }()
	return nil
}

// forward makes the API of the cloud, which listens on loopback, available to the edge.
func (t *traffic) forward(ctx context.Context, at netip.Addr, endpoint string) (string, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: httputil.NewSingleHostReverseProxy(target)}
	t.servers = append(t.servers, server)
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// startEdge runs mycloud edge on the machine of the edge, in a namespace of processes of its own: HAProxy, which
// outlives the agent, ends with it.
func (d *demo) startEdge(ctx context.Context, endpoint string, pools []netip.Prefix) error {
	program, err := env.Program("mycloud")
	if err != nil {
		return err
	}
	// The sockets of HAProxy need short paths.
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		return err
	}
	d.traffic.cleanup = append(d.traffic.cleanup, func() { _ = os.RemoveAll(dir) })
	args := []string{
		"--net=" + d.traffic.network.Edges[0].Path(), "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
		program, "edge", "--name=edge-1", "--endpoint=" + endpoint, "--allow-insecure-http", "--token-file=" + d.edgeToken,
		"--data-dir=" + dir, "--metrics-listen=0",
	}
	for _, pool := range pools {
		args = append(args, "--address-pool="+pool.String())
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	d.traffic.agent, err = process.Start(process.Spec{
		Name: "edge", Path: nsenter, Args: args, LogDir: d.env.LogDir(), PIDDir: d.dir.pids(),
	})
	if err != nil {
		return err
	}
	client, err := cloudapi.New(cloudapi.Options{Endpoint: d.cloud.Endpoint, Token: cloudapi.StaticToken(d.cloud.Token)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, edgeLimit)
	defer cancel()
	return env.Poll(ctx, "the edge", func(ctx context.Context) error {
		edges, err := client.ListEdges(ctx, cloudapi.ListOptions{State: cloudv1.EdgeActive})
		if err == nil && len(edges.Items) == 0 {
			return errors.New("it has not registered")
		}
		return err
	}, d.traffic.agent)
}

// stop ends the edge and removes the network.
func (t *traffic) stop() error {
	var errs []error
	if t.agent != nil {
		t.agent.Kill()
	}
	for _, server := range t.servers {
		errs = append(errs, server.Close())
	}
	if t.network != nil {
		t.network.Close()
	}
	for _, clean := range t.cleanup {
		clean()
	}
	return errors.Join(errs...)
}
