package edge

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/mycloud/edge/agent"
	"quaymaster.dev/internal/mycloud/edge/announce"
)

// The values of --announce.
const (
	announceNone = "none"
	announceBGP  = "bgp"
	announceVRRP = "vrrp"
)

// announceOptions holds the flags that say how an edge attracts traffic.
type announceOptions struct {
	method string

	bgpAS                     uint32
	bgpRouterID, bgpPassword  string
	bgpPeers, bgpSources      []string
	vrrpInterface, vrrpSource string
	vrrpID, vrrpPriority      int
	vrrpPeers                 []string

	bgp  announce.BGPOptions
	vrrp announce.VRRPOptions
}

func (o *announceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.method, "announce", announceNone,
		"how the network learns of addresses: none (the network sends them to this edge), bgp (with bird; edges share the "+
			"traffic and the limits) or vrrp (with keepalived; one edge at a time has all addresses)")
	f.Uint32Var(&o.bgpAS, "bgp-as", 0, "autonomous system of the edges")
	f.StringVar(&o.bgpRouterID, "bgp-router-id", "", "IPv4 address that identifies the edge to its peers; defaults to the first IPv4 address of the machine")
	f.StringSliceVar(&o.bgpPeers, "bgp-peer", nil, "address of a router and its autonomous system, such as 198.51.100.1=64500")
	f.StringSliceVar(&o.bgpSources, "bgp-source", nil, "own address for sessions, at most one of each family")
	f.StringVar(&o.bgpPassword, "bgp-password-file", "", "file with the password of all sessions")
	f.StringVar(&o.vrrpInterface, "vrrp-interface", "", "interface towards the clients or their router")
	f.IntVar(&o.vrrpID, "vrrp-id", 51, "virtual router id, 1 to 255, the same on all edges")
	f.IntVar(&o.vrrpPriority, "vrrp-priority", 100, "priority, 1 to 254; of the edges that start together, the one with the highest has the addresses, and it keeps them as long as it lives")
	f.StringVar(&o.vrrpSource, "vrrp-source", "", "own address on the interface; defaults to its first IPv4 address")
	f.StringSliceVar(&o.vrrpPeers, "vrrp-peer", nil, "addresses of the other edges")
}

// validate returns all problems of the flags, after reading them.
func (o *announceOptions) validate() []error {
	switch o.method {
	case announceNone:
		return nil
	case announceBGP:
		return o.readBGP()
	case announceVRRP:
		return o.readVRRP()
	}
	return []error{fmt.Errorf("--announce %q: must be %s, %s or %s", o.method, announceNone, announceBGP, announceVRRP)}
}

// address reads an address of a flag, or adds a problem.
func address(problems *[]error, flag, value string) netip.Addr {
	a, err := netip.ParseAddr(value)
	if err != nil {
		*problems = append(*problems, fmt.Errorf("--%s %q: must be an IP address", flag, value))
	}
	return a
}

func (o *announceOptions) readBGP() []error {
	var problems []error
	if o.bgpAS == 0 {
		problems = append(problems, errors.New("--bgp-as is required with --announce=bgp"))
	}
	o.bgp.LocalAS = o.bgpAS
	if o.bgpRouterID == "" {
		o.bgpRouterID = firstIPv4("")
	}
	if o.bgp.RouterID = address(&problems, "bgp-router-id", o.bgpRouterID); o.bgp.RouterID.IsValid() && !o.bgp.RouterID.Is4() {
		problems = append(problems, fmt.Errorf("--bgp-router-id %q: must be an IPv4 address", o.bgpRouterID))
	}
	if len(o.bgpPeers) == 0 {
		problems = append(problems, errors.New("--bgp-peer is required with --announce=bgp"))
	}
	for _, peer := range o.bgpPeers {
		host, as, _ := strings.Cut(peer, "=")
		a, err1 := netip.ParseAddr(host)
		n, err2 := strconv.ParseUint(as, 10, 32)
		if err1 != nil || err2 != nil || n == 0 {
			problems = append(problems, fmt.Errorf("--bgp-peer %q: must be address=AS, such as 198.51.100.1=64500", peer))
			continue
		}
		o.bgp.Peers = append(o.bgp.Peers, announce.Peer{Address: a, AS: uint32(n), PasswordFile: o.bgpPassword})
	}
	for _, source := range o.bgpSources {
		o.bgp.Sources = append(o.bgp.Sources, address(&problems, "bgp-source", source))
	}
	return problems
}

// firstIPv4 returns the first IPv4 address of an interface, or of the machine if it has no name; or an empty string.
func firstIPv4(name string) string {
	for _, a := range machineAddresses(name) {
		if parsed, err := netip.ParseAddr(a); err == nil && parsed.Is4() {
			return a
		}
	}
	return ""
}

func (o *announceOptions) readVRRP() []error {
	var problems []error
	if o.vrrpInterface == "" {
		problems = append(problems, errors.New("--vrrp-interface is required with --announce=vrrp"))
	}
	if o.vrrpID < 1 || o.vrrpID > 255 {
		problems = append(problems, fmt.Errorf("--vrrp-id %d: must be between 1 and 255", o.vrrpID))
	}
	if o.vrrpPriority < 1 || o.vrrpPriority > 254 {
		problems = append(problems, fmt.Errorf("--vrrp-priority %d: must be between 1 and 254", o.vrrpPriority))
	}
	if o.vrrpSource == "" {
		o.vrrpSource = firstIPv4(o.vrrpInterface)
	}
	o.vrrp = announce.VRRPOptions{
		Interface: o.vrrpInterface, RouterID: o.vrrpID, Priority: o.vrrpPriority,
		Source: address(&problems, "vrrp-source", o.vrrpSource),
	}
	for _, peer := range o.vrrpPeers {
		o.vrrp.Peers = append(o.vrrp.Peers, address(&problems, "vrrp-peer", peer))
	}
	return problems
}

// shared reports whether several edges carry traffic at the same time.
func (o *announceOptions) shared() bool { return o.method == announceBGP }

// announcer returns what --announce asks for. Its files are in dir.
func (o *announceOptions) announcer(dir string) agent.Announcer {
	switch o.method {
	case announceBGP:
		o.bgp.Dir = filepath.Join(dir, "bird")
		return announce.NewBGP(o.bgp)
	case announceVRRP:
		o.vrrp.Dir = filepath.Join(dir, "keepalived")
		return announce.NewVRRP(o.vrrp)
	}
	return announce.None{}
}
