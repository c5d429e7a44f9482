//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// service is a listener as the kernel needs it: everything that it takes to render it.
type service struct {
	id       serviceID
	nat      bool
	protocol string
	at       netip.AddrPort
	// sources are the ranges of clients, none in another; nil allows all.
	sources []netip.Prefix
	maxQPS  float64
	idle    time.Duration
	// sticky is true if the client's port must not matter.
	sticky bool
	// open are the members that get new connections, and kept the marks of all whose connections go on: both sorted.
	open []share
	kept []uint32
	// units bounds the sum of the weights.
	units int
}

// serviceID is the identity of a listener on one address.
type serviceID struct {
	loadBalancer, key, family string
}

func idOf(l *config.Listener) serviceID {
	return serviceID{l.LoadBalancer, l.Key, cloudv1.FamilyOf(l.Address)}
}

// String returns a name that nftables accepts if valid is true.
func (id serviceID) String() string {
	return id.loadBalancer + "/" + id.key + "/" + id.family
}

var nftName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,200}$`)

func (id serviceID) valid() bool {
	return nftName.MatchString(id.String())
}

func (id serviceID) fault(format string, args ...any) cloudv1.EdgeFault {
	return cloudv1.EdgeFault{
		LoadBalancerID: id.loadBalancer, ListenerKey: id.key, Detail: fmt.Sprintf(format, args...),
	}
}

// ownerID is a load balancer with its address of a family, which has a share of what the edge has for all.
type ownerID struct {
	loadBalancer, family string
}

func (s *service) owner() ownerID { return ownerID{s.id.loadBalancer, s.id.family} }

// flows returns the name of the flows of a protocol that only the load balancer has.
func (o ownerID) flows(protocol string) string {
	return "flows/" + o.loadBalancer + "/" + protocol + strings.TrimPrefix(o.family, "ipv")
}

// crowded returns the name of what counts connections that are refused because the address has its share of them.
func (o ownerID) crowded() string { return "crowded/" + o.loadBalancer + "/" + o.family }

// forgotten returns the name of what counts packets that are forwarded without being remembered.
func (o ownerID) forgotten() string { return "forgotten/" + o.loadBalancer + "/" + o.family }

// overflow returns what the rules have counted beyond the share.
func (o ownerID) overflow(counts map[string]*expr.Counter) config.Overflow {
	packets := func(name string) uint64 {
		if c := counts[name]; c != nil {
			return c.Packets
		}
		return 0
	}
	return config.Overflow{
		LoadBalancer: o.loadBalancer, Family: o.family,
		Connections: packets(o.crowded()), Packets: packets(o.forgotten()),
	}
}

// target is where the packets of a member go: its address, and for NAT its port.
type target struct {
	address netip.Addr
	port    uint16
}

func (t target) String() string {
	if t.port == 0 {
		return t.address.String()
	}
	return netip.AddrPortFrom(t.address, t.port).String()
}

// newService returns the listener without members.
func newService(l config.Listener, p *config.Pool) (*service, error) {
	s := &service{
		id:       idOf(&l),
		nat:      l.Engine == config.NAT,
		protocol: l.Protocol,
		at:       netip.AddrPortFrom(l.Address, l.Port),
		sources:  merged(l.Allowed),
		maxQPS:   l.MaxQPS,
		idle:     l.IdleTimeout,
		sticky:   p.Algorithm == cloudv1.AlgorithmSourceIP,
	}
	switch {
	case !s.id.valid():
		return nil, fmt.Errorf("the name %q has characters other than letters, digits, and . _ / -", s.id)
	case l.Protocol != cloudv1.ProtocolTCP && l.Protocol != cloudv1.ProtocolUDP:
		return nil, fmt.Errorf("protocol %q must be tcp or udp without a proxy", l.Protocol)
	case l.MaxConnections > 0 || l.ProxyProtocol != "":
		return nil, fmt.Errorf("max connections and the PROXY protocol need the proxy")
	}
	return s, nil
}

// merged returns the prefixes without those that are part of others, which nftables refuses.
func merged(prefixes []netip.Prefix) []netip.Prefix {
	if prefixes == nil {
		return nil
	}
	sorted := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		sorted[i] = p.Masked()
	}
	// Shorter prefixes come before those that are part of them.
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	kept := []netip.Prefix{}
	for _, p := range sorted {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// weighted reports whether members have different weights.
func (s *service) weighted() bool {
	return slices.ContainsFunc(s.open, func(m share) bool { return m.weight != s.open[0].weight })
}

// marks returns the marks of the members that get new connections, sorted.
func (s *service) marks() []uint32 {
	marks := make([]uint32, len(s.open))
	for i, m := range s.open {
		marks[i] = m.mark
	}
	slices.Sort(marks)
	return marks
}

// ip returns the name of the address family in rules.
func (s *service) ip() string {
	if s.at.Addr().Is6() {
		return "ip6"
	}
	return "ip"
}

// suffix tells the objects of the address families apart.
func (s *service) suffix() string {
	return strings.TrimPrefix(s.id.family, "ipv")
}

// equal reports whether the services are rendered equally.
func (s *service) equal(other *service) bool {
	return reflect.DeepEqual(s, other)
}
