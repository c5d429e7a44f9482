package edge_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/edgenet"
)

const (
	// badMember is the key of a member that routes lead to but that is no single machine: its network's broadcast address.
	badMember, badAddress = "broadcast", "10.55.0.255"
	// badCertificate does not exist.
	badCertificate = "cert-01234567"
	// most are the limits of the API.
	mostListeners, mostMembers, mostRanges = 256, 1000, 256
)

// ports are those that tenants want most, and that programs of edges take.
func ports() []uint16 { return []uint16{22, 80, 443, 5353} }

// size returns a number of things: mostly few, now and then as many as the API allows.
func (q *play) size(few, most int) int {
	if q.random.IntN(40) == 0 {
		return most
	}
	return q.random.IntN(few + 1)
}

// one returns a random element.
func one[T any](q *play, list ...T) T { return list[q.random.IntN(len(list))] }

func (q *play) state() string {
	return one(q, cloudv1.MemberActive, cloudv1.MemberActive, cloudv1.MemberActive, cloudv1.MemberDraining)
}

// address returns one of the addresses of the tenant's machine.
func (t *tenant) address(family string, n int) string {
	return t.addresses[family][n%addresses].String()
}

// draw returns what a tenant wants: what the API allows, whether or not edges can do it.
func (q *play) draw(t *tenant) cloudv1.LoadBalancerSpec {
	s := cloudv1.LoadBalancerSpec{Name: t.name, LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
	}}
	families := one(q, []string{cloudv1.FamilyIPv4}, []string{cloudv1.FamilyIPv6}, []string{cloudv1.FamilyIPv4, cloudv1.FamilyIPv6})
	for _, family := range families {
		vip := cloudv1.VIP{Family: family, Mode: one(q, cloudv1.VIPModeVIP, cloudv1.VIPModeProxy)}
		if t.lb == nil && q.random.IntN(2) == 0 {
			vip.Address = wished(q.random.IntN(tenants), family)
		}
		s.VIPs = append(s.VIPs, vip)
	}
	n := 1 + q.size(3, mostListeners-1)
	for i := range n {
		l := q.listener(i)
		s.Listeners = append(s.Listeners, l)
		for _, family := range families {
			s.Pools = append(s.Pools, q.pool(t, &l, family, n))
		}
	}
	return s
}

// wished returns one of the few addresses that tenants ask for, so that one gets what another one had.
func wished(n int, family string) string {
	pool := edgenet.Pool4
	if family == cloudv1.FamilyIPv6 {
		pool = edgenet.Pool6
	}
	bytes := pool.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(200 + n)
	a, _ := netip.AddrFromSlice(bytes)
	return a.String()
}

func (q *play) listener(i int) cloudv1.Listener {
	l := cloudv1.Listener{
		Protocol: one(q, cloudv1.ProtocolTCP, cloudv1.ProtocolTCP, cloudv1.ProtocolUDP, cloudv1.ProtocolHTTP, cloudv1.ProtocolHTTPS),
		Port:     int32(20000 + i), MaxQPS: one(q, 0, 0, 1000, 1_000_000), MaxConnections: one(q, 0, 0, 1000, 1_000_000),
		IdleTimeoutMS: one(q, int64(0), 60_000, 3_600_000),
	}
	if i < len(ports()) {
		l.Port = int32(ports()[i])
	}
	switch l.Protocol {
	case cloudv1.ProtocolTCP:
		l.ProxyProtocol = one(q, "", "", cloudv1.ProxyProtocolV1)
	case cloudv1.ProtocolHTTPS:
		l.TLS = &cloudv1.TLS{CertificateIDs: []string{one(q, q.certificate, q.certificate, q.certificate, badCertificate)}}
	}
	for j := range one(q, 0, 0, q.size(3, mostRanges)) {
		l.AllowedCIDRs = append(l.AllowedCIDRs, fmt.Sprintf("10.%d.0.0/16", j))
	}
	if len(l.AllowedCIDRs) > 1 && q.random.IntN(2) == 0 {
		// The client's networks.
		l.AllowedCIDRs[0], l.AllowedCIDRs[1] = "198.51.100.0/24", "2001:db8:198::/64"
	}
	l.Key = transport(l.Protocol) + "/" + strconv.Itoa(int(l.Port))
	l.PoolKey = l.Key
	return l
}

func transport(protocol string) string {
	if protocol == cloudv1.ProtocolUDP {
		return protocol
	}
	return cloudv1.ProtocolTCP
}

// pool returns the pool of a listener, which is one of n.
func (q *play) pool(t *tenant, l *cloudv1.Listener, family string, n int) cloudv1.Pool {
	p := cloudv1.Pool{
		Key: l.PoolKey, Family: family, Protocol: transport(l.Protocol), TargetPort: backendPort, DrainTimeoutS: one(q, int64(0), 1, 3600),
		Algorithm: one(q, cloudv1.AlgorithmRoundRobin, cloudv1.AlgorithmWeightedRoundRobin, cloudv1.AlgorithmLeastConnections,
			cloudv1.AlgorithmSourceIP),
	}
	if modeOf(l) == cloudv1.ProtocolHTTP {
		p.Protocol, p.TargetPort = cloudv1.ProtocolHTTP, httpPort
	}
	if q.random.IntN(4) == 0 {
		p.SessionAffinity = &cloudv1.SessionAffinity{Type: cloudv1.AffinitySourceIP, TimeoutS: 60}
	}
	if q.random.IntN(2) == 0 {
		p.HealthMonitor = &cloudv1.HealthMonitor{
			Type: cloudv1.ProtocolTCP, Port: backendPort, IntervalMS: one(q, int64(1000), 300_000), TimeoutMS: 500, Rise: 1, Fall: 2,
		}
	}
	if q.random.IntN(3) == 0 {
		p.NodeGroupID = t.group.ID
		return p
	}
	members := q.size(8, mostMembers)
	if n > len(ports()) {
		members = 2
	}
	for i := range members {
		p.Members = append(p.Members, cloudv1.Member{
			Key: fmt.Sprintf("member-%d", i), Address: t.address(family, i), Port: p.TargetPort, Weight: one(q, 0, 1, 100, 256),
			State: q.state(),
		})
	}
	if members > 0 && family == cloudv1.FamilyIPv4 && q.random.IntN(8) == 0 {
		p.Members[0].Key, p.Members[0].Address = badMember, badAddress
	}
	return p
}

func modeOf(l *cloudv1.Listener) string {
	if l.Protocol == cloudv1.ProtocolHTTPS {
		return cloudv1.ProtocolHTTP
	}
	return l.Protocol
}

// describe returns a short text about what a tenant wants.
func describe(s *cloudv1.LoadBalancerSpec) string {
	var words []string
	for _, v := range s.VIPs {
		words = append(words, v.Family+" "+v.Mode+" "+v.Address)
	}
	for i := range s.Listeners {
		if i == len(ports()) {
			words = append(words, fmt.Sprintf("and %d more listeners", len(s.Listeners)-i))
			break
		}
		l := &s.Listeners[i]
		text := fmt.Sprintf("%s/%d ranges=%d connections=%d %s", l.Protocol, l.Port, len(l.AllowedCIDRs), l.MaxConnections, l.ProxyProtocol)
		if l.TLS != nil && l.TLS.CertificateIDs[0] == badCertificate {
			text += " without certificate"
		}
		words = append(words, text)
	}
	for i := range s.Pools {
		if i == 2*len(ports()) {
			break
		}
		p := &s.Pools[i]
		words = append(words, fmt.Sprintf("pool %s %s %s group=%t members=%d monitor=%t", p.Key, p.Family, p.Algorithm, p.NodeGroupID != "",
			len(p.Members), p.HealthMonitor != nil))
	}
	return strings.Join(words, "; ")
}

// endpoint is where a listener of a tenant should answer.
type endpoint struct {
	tenant   *tenant
	listener *cloudv1.Listener
	vip      *cloudv1.VIP
	pool     *cloudv1.Pool
	at       netip.AddrPort
}

// endpoints returns those of a tenant.
func (t *tenant) endpoints() []endpoint {
	if t.lb == nil {
		return nil
	}
	pools := map[string]*cloudv1.Pool{}
	for i := range t.lb.Pools {
		pools[t.lb.Pools[i].Key+t.lb.Pools[i].Family] = &t.lb.Pools[i]
	}
	var list []endpoint
	for i := range t.lb.Listeners {
		for j := range t.lb.VIPs {
			l, v := &t.lb.Listeners[i], &t.lb.VIPs[j]
			at := netip.AddrPortFrom(netip.MustParseAddr(v.Address), uint16(l.Port))
			list = append(list, endpoint{tenant: t, listener: l, vip: v, pool: pools[l.PoolKey+v.Family], at: at})
		}
	}
	return list
}

// proxied reports whether HAProxy serves the endpoint.
func (e *endpoint) proxied() bool {
	return e.listener.NeedsProxy() || e.vip.Mode == cloudv1.VIPModeProxy && e.listener.Protocol == cloudv1.ProtocolTCP
}

// members returns the members of the endpoint's pool, as those of a pool without a node group.
func (e *endpoint) members() []cloudv1.Member {
	if e.pool.NodeGroupID == "" {
		return e.pool.Members
	}
	var members []cloudv1.Member
	for _, m := range e.tenant.group.Members {
		for _, a := range m.Addresses {
			if a.Family == e.pool.Family {
				members = append(members, cloudv1.Member{Key: m.Key, Address: a.Address, Weight: m.Weight, State: m.State})
			}
		}
	}
	return members
}

// refusals returns what faults of an edge about the endpoint must contain, one fault each.
func (e *endpoint) refusals(programs map[uint16]func()) []string {
	missing := e.listener.TLS != nil && e.listener.TLS.CertificateIDs[0] == badCertificate
	if e.proxied() {
		if missing || programs[e.at.Port()] != nil {
			return []string{fmt.Sprintf("listener on %s: ", e.at)}
		}
		return nil
	}
	if e.listener.Protocol == cloudv1.ProtocolUDP && e.listener.MaxConnections > 0 {
		// Packets have no connections that could be counted, which only edges know.
		return []string{"max connections and the PROXY protocol need the proxy"}
	}
	for _, m := range e.members() {
		if m.Key == badMember {
			return []string{fmt.Sprintf("member %s: %s is not the address of one machine", badMember, badAddress)}
		}
	}
	return nil
}

const (
	// ownMembers is how many members each load balancer has in HAProxy, whatever others do, and fewMembers how many all
	// may have together without any being refused.
	ownMembers, fewMembers = 256, 2048
	// refusesMembers is what a fault contains.
	refusesMembers = "are left for the load balancer on the edge"
)

// mayExceed reports whether edges may refuse listeners of the tenant because it has too many members.
func (q *play) mayExceed(t *tenant) bool {
	own, all := 0, 0
	for _, other := range q.tenants {
		members := 0
		for _, e := range other.endpoints() {
			members += len(e.members())
		}
		all += members
		if other == t {
			own = members
		}
	}
	return own > ownMembers && all > fewMembers
}

// answers reports whether a client of an edge must get an answer.
func (e *endpoint) answers(programs map[uint16]func()) bool {
	if e.proxied() || e.listener.MaxConnections > 0 {
		if len(e.refusals(programs)) > 0 {
			return false
		}
		for _, m := range e.members() {
			if m.Key == badMember {
				// HAProxy tries it.
				return false
			}
		}
	}
	if m := e.pool.HealthMonitor; e.tenant.silent && m != nil && time.Duration(m.IntervalMS)*time.Millisecond > patience {
		return false
	}
	allowed := len(e.listener.AllowedCIDRs) == 0
	for _, cidr := range e.listener.AllowedCIDRs {
		allowed = allowed || cidr == "198.51.100.0/24" && e.vip.Family == cloudv1.FamilyIPv4 ||
			cidr == "2001:db8:198::/64" && e.vip.Family == cloudv1.FamilyIPv6
	}
	for _, m := range e.members() {
		if m.State == cloudv1.MemberActive && m.Weight > 0 && m.Key != badMember {
			return allowed
		}
	}
	return false
}
