// Package edge has the command that runs an edge, which needs the Linux kernel.
package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/durable"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/addresses"
	"quaymaster.dev/internal/mycloud/edge/agent"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy"
	"quaymaster.dev/internal/mycloud/edge/kernel"
)

// The values of --forwarding.
const (
	forwardDirect = "direct"
	forwardNAT    = "nat"
)

// leastSilence is the shortest time without an answer of the API after which an edge may withdraw its addresses: several
// heartbeats fail meanwhile, or the API is restarted.
const leastSilence = 30 * time.Second

// options holds the flags of edge.
type options struct {
	announceOptions
	cloud                                                                   Cloud
	name, zone, dataDir, forwarding, metrics, haproxyUser, addressInterface string
	pools, members                                                          []string
	router                                                                  bool
	connections                                                             int
	withdrawAfter                                                           time.Duration
}

// Cloud connects an edge to its cloud, by the flags of clients.
type Cloud struct {
	// AddFlags adds the flags, which take precedence over the environment variable TokenVariable.
	AddFlags      func(*pflag.FlagSet)
	TokenVariable string
	// Endpoints returns the addresses of the API.
	Endpoints func() []string
	// CloudID returns the id of the cloud that is the right one from now on, or "" for the one of before. Identify sets how
	// clients make sure that the cloud is the right one.
	CloudID  func() string
	Identify func(func(context.Context) error)
	// Client returns a client with the token of the flags, and ClientWith one with another token.
	Client     func() (*cloudapi.Client, error)
	ClientWith func(token func() (string, error)) (*cloudapi.Client, error)
	// ServeMetrics serves metrics until the context is done.
	ServeMetrics func(ctx context.Context, running *sync.WaitGroup, address string, registry *prometheus.Registry) error
}

// NewCommand returns the command that runs an edge.
func NewCommand(cloud Cloud) *cobra.Command {
	o := &options{cloud: cloud}
	cmd := &cobra.Command{
		Use:   "edge",
		Short: "Carry the traffic of load balancers on this machine",
		Long: "Follows the control plane of a cloud and makes this machine carry the traffic of its load balancers, with the\n" +
			"kernel (nft) and HAProxy. It requires root, the programs nft and haproxy, and those of the announcement.\n" +
			"Traffic goes on when the command ends: start it again, or drain the edge first. If systemd is stopping the\n" +
			"machine, the command withdraws its addresses.\n" +
			"The edge registers with --token-file, " + cloud.TokenVariable + " or --client-cert-file, and then uses a token of its own,\n" +
			"which it keeps in --data-dir. It belongs to the cloud that it has registered with: if the endpoint leads to another one, it\n" +
			"goes on with what it serves. If that cloud is to replace the former one, name it in --cloud-id.",
		Example: "  mycloud edge --endpoint=https://cloud.example.com --token-file=/etc/mycloud/edge-token \\\n" +
			"    --announce=bgp --bgp-as=64512 --bgp-peer=198.51.100.1=64500",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f := cmd.Flags()
	cloud.AddFlags(f)
	o.announceOptions.addFlags(f)
	f.StringVar(&o.name, "name", "", "name of the edge, which must be unique; defaults to the name of the machine")
	f.StringVar(&o.zone, "zone", "", "zone of the edge; it then serves load balancers of the zone and those without zones")
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/mycloud-edge", "folder for the last state and for the files of the engines")
	f.StringVar(&o.forwarding, "forwarding", forwardDirect,
		"how the kernel forwards: direct (unchanged, requires one link with the nodes) or nat (to node ports)")
	f.StringSliceVar(&o.pools, "address-pool", nil,
		"networks of load balancer addresses: no others are served, and packets for those that are not in use are "+
			"dropped silently; empty allows all")
	f.StringSliceVar(&o.members, "member-network", nil,
		"networks of members: no others get traffic or probes; empty allows all hosts but edges, load balancers and routers, "+
			"which are never members, and the API, which is one if it is also named here by itself, such as 192.0.2.7/32")
	f.BoolVar(&o.router, "router", false,
		"forward packets of other machines, too; without it, the machine forwards nothing but traffic of load balancers")
	f.IntVar(&o.connections, "connections-per-address", 0,
		"connections that an address may have through HAProxy and nat; more are refused, so that others have room; 0 means "+
			"an eighth of net.netfilter.nf_conntrack_max, and at most 262,144")
	f.DurationVar(&o.withdrawAfter, "withdraw-after", 0,
		"withdraw all addresses when the API has not answered for this long, at least 30s; with 0, the edge goes on without it")
	f.StringVar(&o.addressInterface, "address-interface", "lo",
		"interface that gets the addresses; without announcements, IPv6 clients on a network of the edge find only "+
			"addresses of the interface that they are on")
	f.StringVar(&o.metrics, "metrics-listen", "127.0.0.1:9127", "address of /metrics; 0 for none")
	f.StringVar(&o.haproxyUser, "haproxy-user", "haproxy", "user that HAProxy's workers run as; empty for that of the command")
	return cmd
}

// networks reads networks of a flag, or adds problems.
func networks(problems *[]error, flag string, values []string) []netip.Prefix {
	var list []netip.Prefix
	for _, value := range values {
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			*problems = append(*problems, fmt.Errorf("--%s %q: must be a network such as 203.0.113.0/24", flag, value))
		}
		list = append(list, prefix)
	}
	return list
}

// validate returns the networks of load balancers and of members, or all problems of the flags.
func (o *options) validate() (pools, members []netip.Prefix, err error) {
	var problems []error
	if o.forwarding != forwardDirect && o.forwarding != forwardNAT {
		problems = append(problems, fmt.Errorf("--forwarding %q: must be %s or %s", o.forwarding, forwardDirect, forwardNAT))
	}
	if o.withdrawAfter != 0 && o.withdrawAfter < leastSilence {
		problems = append(problems, fmt.Errorf("--withdraw-after %s: must be 0 or at least %s", o.withdrawAfter, leastSilence))
	}
	if o.connections < 0 {
		problems = append(problems, fmt.Errorf("--connections-per-address %d: must be 0 or more", o.connections))
	}
	pools, members = networks(&problems, "address-pool", o.pools), networks(&problems, "member-network", o.members)
	problems = append(problems, o.announceOptions.validate()...)
	if os.Geteuid() != 0 {
		problems = append(problems, errors.New("root is required, for nftables, routes and addresses"))
	}
	if len(problems) > 0 {
		var texts []string
		for _, problem := range problems {
			texts = append(texts, problem.Error())
		}
		return nil, nil, command.Usagef("%s", strings.Join(texts, "; "))
	}
	return pools, members, nil
}

func (o *options) run(ctx context.Context, stderr io.Writer) error {
	pools, members, err := o.validate()
	if err != nil {
		return err
	}
	if o.name == "" {
		if o.name, err = os.Hostname(); err != nil {
			return fmt.Errorf("--name: %w", err)
		}
	}
	identity := agent.NewIdentity(o.cloud.CloudID())
	o.cloud.Identify(identity.Identify)
	registration, err := o.cloud.Client()
	if err != nil {
		return err
	}
	if o.dataDir, err = filepath.Abs(o.dataDir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	alone, err := lock()
	if err != nil {
		return err
	}
	defer alone.Close()
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	certificates := &agent.Certificates{}
	proxy, err := haproxy.NewEngines(haproxy.Options{
		Dir: o.dataDir, User: o.haproxyUser, Certificates: certificates,
		Clock: clock.RealClock{}, Logger: logger,
	})
	if err != nil {
		return fmt.Errorf("use haproxy: %w", err)
	}
	token, err := ownToken(o.dataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	own, err := o.cloud.ClientWith(cloudapi.StaticToken(token))
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	metrics, err := agent.NewMetrics(registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	addresses := &addresses.Local{Dir: o.dataDir, Interface: o.addressInterface, Pools: pools}
	isOwn := isOwnAddress(addresses.Own())
	a := agent.New(agent.Options{
		Cloud: identity.Enroll(own, registration), Identity: identity, Edge: o.spec(token),
		Compile: config.Options{
			Name: o.name, Zone: o.zone, NAT: o.forwarding == forwardNAT, Shared: o.shared(),
			Pools: pools, Members: members, Reserved: o.reserved(isOwn), API: o.api(ctx),
		},
		StateFile: filepath.Join(o.dataDir, "state.json"), WithdrawAfter: o.withdrawAfter, Proxy: proxy, Certificates: certificates,
		Kernel: kernel.New(kernel.Options{
			Dir: o.dataDir, MaxConnections: o.connections, Router: o.router, Logger: logger,
		}),
		Addresses: addresses,
		Announcer: o.announcer(o.dataDir),
		Metrics:   metrics, Logger: logger,
	})
	var running sync.WaitGroup
	defer running.Wait()
	work, stop := context.WithCancel(ctx)
	defer stop()
	if o.metrics != "0" {
		if err := o.cloud.ServeMetrics(work, &running, o.metrics, registry); err != nil {
			return fmt.Errorf("--metrics-listen: %w", err)
		}
	}
	running.Go(func() { proxy.Run(work) })
	logger.InfoContext(ctx, "Carrying the traffic of load balancers", "edge", o.name, "forwarding", o.forwarding,
		"announce", o.method)
	a.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if !stopping(last) {
		logger.InfoContext(ctx, "Stopping; traffic goes on")
		return nil
	}
	logger.InfoContext(ctx, "The machine is stopping; withdrawing its addresses")
	return a.Leave(last)
}

// ownToken returns the edge's own token, by which the cloud tells machines with the same name apart. It stays the same over
// restarts.
func ownToken(dir string) (string, error) {
	path := filepath.Join(dir, "edge-token")
	token, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token = []byte(rand.Text())
		err = durable.Replace(path, token)
	}
	return string(token), err
}

// spec returns the settings with which the edge registers.
func (o *options) spec(token string) cloudv1.EdgeSpec {
	s := cloudv1.EdgeSpec{Name: o.name, Token: token, EdgeFields: cloudv1.EdgeFields{
		Zone: o.zone, Capabilities: []string{cloudv1.EdgeProxy}, Addresses: machineAddresses(""),
	}}
	if o.forwarding == forwardDirect {
		s.Capabilities = append(s.Capabilities, cloudv1.EdgeDirect)
	}
	return s
}

// maxAddresses is how many addresses an edge may have in the API.
const maxAddresses = 16

// machineAddresses returns the addresses of an interface, or of all of them if it has no name.
func machineAddresses(name string) []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var list []string
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 || name != "" && i.Name != name {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
				list = append(list, prefix.Addr().String())
			}
		}
	}
	return list[:min(len(list), maxAddresses)]
}
