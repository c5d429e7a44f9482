// Package config compiles the load balancers of a cloud into what an edge has to do. It does no I/O.
package config

import (
	"cmp"
	"net/netip"
	"time"
)

// Engine is what carries the traffic of a listener.
type Engine string

// The engines.
const (
	// Direct forwards packets unchanged to a node, which knows the load balancer's address.
	Direct Engine = "direct"
	// NAT forwards packets to a member's address and port, and masquerades them.
	NAT Engine = "nat"
	// Proxy is HAProxy.
	Proxy Engine = "proxy"
)

// Config is what an edge has to do. All lists are sorted, so that equal configurations are deeply equal.
type Config struct {
	// Addresses are those of the load balancers, for which the edge answers.
	Addresses []netip.Addr
	Listeners []Listener
	Pools     []Pool
}

// Listener is a listener of a load balancer on one of its addresses.
type Listener struct {
	// LoadBalancer is an id, Key such as tcp/80. Together with the family of Address they are the identity.
	LoadBalancer, Key string
	Address           netip.Addr
	Port              uint16
	// Protocol is tcp, udp, http or https.
	Protocol string
	Engine   Engine
	// Pool is the ID of a pool.
	Pool PoolID
	// MaxQPS is this edge's share of the limit in requests, connections or flows per second; 0 means no limit.
	MaxQPS float64
	// MaxConnections is this edge's share; 0 means no limit.
	MaxConnections int
	// IdleTimeout is how long a connection or flow may be idle; 0 leaves it to the engine.
	IdleTimeout time.Duration
	// ProxyProtocol is the version that members receive: empty, v1 or v2.
	ProxyProtocol string
	// Allowed are the source ranges of clients, of the family of Address; nil allows all.
	Allowed []netip.Prefix
	// Certificates are ids, the default certificate first.
	Certificates []string
}

// PoolID is the identity of a pool.
type PoolID struct {
	// LoadBalancer is an id, Key such as tcp/80.
	LoadBalancer, Key string
	// Family is ipv4 or ipv6.
	Family string
}

func (p PoolID) compare(o PoolID) int {
	return cmp.Or(cmp.Compare(p.LoadBalancer, o.LoadBalancer), cmp.Compare(p.Key, o.Key), cmp.Compare(p.Family, o.Family))
}

// Pool has the members among which listeners distribute their traffic.
type Pool struct {
	ID PoolID
	// Protocol is tcp, udp or http.
	Protocol string
	// Algorithm is round_robin, weighted_round_robin, least_connections or source_ip.
	Algorithm string
	// Drain is how long connections of a member that leaves may go on.
	Drain time.Duration
	// Members are sorted by key. Pools of one node group and family have the same list, which must not be changed.
	Members []Member
	// Port is that of members without one of their own.
	Port uint16
	// Monitor probes the members; nil means that all count as healthy.
	Monitor *Monitor
}

// PortOf returns the port of a member of the pool; 0 if it has none, so that only Direct can reach it.
func (p *Pool) PortOf(m Member) uint16 { return cmp.Or(m.Port, p.Port) }

// Member is a backend.
type Member struct {
	Key     string
	Address netip.Addr
	// Port is 0 if the member has that of its pool.
	Port   uint16
	Weight int
	// Draining members keep the connections they have.
	Draining bool
}

// Monitor probes members.
type Monitor struct {
	// Type is tcp, http or https.
	Type string
	Port uint16
	// Path and ExpectedCodes, such as 200-399,404, are empty for tcp.
	Path, ExpectedCodes string
	Interval, Timeout   time.Duration
	Rise, Fall          int
}

// Overflow counts what a load balancer has beyond its share of what the kernel has for all.
type Overflow struct {
	LoadBalancer, Family string
	// Connections were refused: the address has its share of those that are tracked.
	Connections uint64
	// Packets were forwarded without being remembered: their flows may move to another member with the next change.
	Packets uint64
}
