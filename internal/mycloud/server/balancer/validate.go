// Package balancer validates the trees of load balancers, derives their health and allocates their addresses. It does
// no I/O.
package balancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// problems collects problems with the pointers to their fields.
type problems []cloudv1.ProblemField

func (p *problems) add(pointer, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	*p = append(*p, cloudv1.ProblemField{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: detail})
}

// Validate returns all problems of a tree that a schema cannot express, such as those between several fields.
func Validate(s *cloudv1.LoadBalancerSpec) []cloudv1.ProblemField {
	var p problems
	families := validateVIPs(&p, s.VIPs)
	if s.Listeners == nil {
		p.add("/listeners", "is required; use an empty list for a load balancer without listeners")
	}
	if s.Pools == nil {
		p.add("/pools", "is required; use an empty list for a load balancer without pools")
	}
	// The protocol of each pool.
	pools := map[poolID]string{}
	for i := range s.Pools {
		validatePool(&p, fmt.Sprintf("/pools/%d", i), &s.Pools[i], pools)
	}
	keys := map[string]bool{}
	for i := range s.Listeners {
		l, at := &s.Listeners[i], fmt.Sprintf("/listeners/%d", i)
		if keys[l.Key] {
			p.add(at+"/key", "must be unique; %q is a duplicate", l.Key)
		}
		keys[l.Key] = true
		validateListener(&p, at, l)
		for _, f := range families {
			protocol, exists := pools[poolID{l.PoolKey, f}]
			switch {
			case !exists:
				p.add(at+"/pool_key", "no pool %q of family %s", l.PoolKey, f)
			case !sameTransport(l.Protocol, protocol):
				p.add(at+"/pool_key", "must name a pool whose transport fits protocol %s; pool %q of family %s has protocol %s",
					l.Protocol, l.PoolKey, f, protocol)
			}
		}
	}
	validatePortless(&p, s)
	return p
}

// validatePortless checks the pools whose members have no port: only packets that are forwarded unchanged reach them.
func validatePortless(p *problems, s *cloudv1.LoadBalancerSpec) {
	mode := map[string]string{}
	for _, v := range s.VIPs {
		mode[v.Family] = v.Mode
	}
	for i := range s.Pools {
		pool, at := &s.Pools[i], fmt.Sprintf("/pools/%d", i)
		for j := range pool.Members {
			if problem := PortProblem(pool, &pool.Members[j]); problem != "" {
				p.add(fmt.Sprintf("%s/members/%d/port", at, j), "%s", problem)
			}
		}
		if pool.TargetPort != 0 {
			continue
		}
		if m := pool.HealthMonitor; m != nil && m.Type != cloudv1.ProtocolNone && m.Port == 0 {
			p.add(at+"/health_monitor/port", "is required if target_port is 0")
		}
		if mode[pool.Family] == cloudv1.VIPModeProxy {
			p.add(at+"/target_port", "0 requires a vip of mode vip, not proxy; set the port of the members, or the mode vip")
		}
		for j := range s.Listeners {
			if l := &s.Listeners[j]; l.PoolKey == pool.Key && l.NeedsProxy() {
				p.add(at+"/target_port", "0 requires listeners that edges forward directly; listener %q needs a proxy: "+
					"it has protocol %s, max_connections %d, proxy_protocol %s",
					l.Key, l.Protocol, l.MaxConnections, cmp.Or(l.ProxyProtocol, cloudv1.ProxyProtocolNone))
			}
		}
	}
}

// PortProblem returns what is wrong with the port of a pool's own member, or an empty string.
func PortProblem(pool *cloudv1.Pool, m *cloudv1.Member) string {
	if m.Port == 0 && pool.TargetPort != 0 {
		return "must be at least 1, because the pool has a target_port"
	}
	return ""
}

// sameTransport reports whether two protocols use the same transport. It returns true for invalid protocols, which have
// a problem of their own.
func sameTransport(a, b string) bool {
	transports := map[string]string{
		cloudv1.ProtocolTCP: "tcp", cloudv1.ProtocolHTTP: "tcp", cloudv1.ProtocolHTTPS: "tcp", cloudv1.ProtocolUDP: "udp",
	}
	return transports[a] == transports[b] || transports[a] == "" || transports[b] == ""
}

// poolID is a pool's identity.
type poolID struct{ key, family string }

// validateVIPs returns the families that the load balancer will have.
func validateVIPs(p *problems, vips []cloudv1.VIP) []string {
	if len(vips) == 0 {
		return []string{cloudv1.FamilyIPv4}
	}
	var families []string
	seen := map[string]bool{}
	for i, v := range vips {
		if seen[v.Family] {
			p.add(fmt.Sprintf("/vips/%d/family", i), "must be unique; %q is a duplicate", v.Family)
			continue
		}
		seen[v.Family] = true
		families = append(families, v.Family)
	}
	return families
}

func validateListener(p *problems, at string, l *cloudv1.Listener) {
	transport := "tcp"
	if l.Protocol == cloudv1.ProtocolUDP {
		transport = "udp"
	}
	if want := transport + "/" + strconv.Itoa(int(l.Port)); l.Key != want {
		p.add(at+"/key", "must be %q for protocol %s and port %d, not %q", want, l.Protocol, l.Port, l.Key)
	}
	hasCertificate := l.TLS != nil && len(l.TLS.CertificateIDs) > 0
	switch {
	case l.Protocol == cloudv1.ProtocolHTTPS && !hasCertificate:
		p.add(at+"/tls", "is required for protocol https; name at least one certificate")
	case l.Protocol != cloudv1.ProtocolHTTPS && l.TLS != nil:
		p.add(at+"/tls", "requires protocol https, not %s", l.Protocol)
	}
	usesProxy := l.ProxyProtocol == cloudv1.ProxyProtocolV1 || l.ProxyProtocol == cloudv1.ProxyProtocolV2
	if usesProxy && l.Protocol != cloudv1.ProtocolTCP {
		p.add(at+"/proxy_protocol", "%s requires protocol tcp, not %s", l.ProxyProtocol, l.Protocol)
	}
	seen := map[string]bool{}
	for i, c := range l.AllowedCIDRs {
		at := fmt.Sprintf("%s/allowed_cidrs/%d", at, i)
		prefix, err := netip.ParsePrefix(c)
		switch {
		case err != nil:
			p.add(at, "must be a CIDR such as 192.0.2.0/24 or 2001:db8::/32, not %q", c)
		case prefix.Masked() != prefix:
			p.add(at, "must not have host bits set; did you mean %q?", prefix.Masked())
		case seen[prefix.String()]:
			p.add(at, "must be unique; %q is a duplicate", c)
		default:
			seen[prefix.String()] = true
		}
	}
}

func validatePool(p *problems, at string, pool *cloudv1.Pool, seen map[poolID]string) {
	id := poolID{pool.Key, pool.Family}
	if _, twice := seen[id]; twice {
		p.add(at+"/key", "must be unique per family; %q of family %s is a duplicate", pool.Key, pool.Family)
	}
	seen[id] = pool.Protocol
	if pool.NodeGroupID != "" && len(pool.Members) > 0 {
		p.add(at+"/members", "must not be combined with node_group_id")
	}
	keys := map[string]bool{}
	for i, m := range pool.Members {
		at := fmt.Sprintf("%s/members/%d", at, i)
		if keys[m.Key] {
			p.add(at+"/key", "must be unique; %q is a duplicate", m.Key)
		}
		keys[m.Key] = true
		if problem := MemberProblem(pool.Family, m.Address); problem != "" {
			p.add(at+"/address", "%s", problem)
		}
	}
	if pool.HealthMonitor != nil {
		validateMonitor(p, at+"/health_monitor", pool.HealthMonitor)
	}
}

func validateMonitor(p *problems, at string, m *cloudv1.HealthMonitor) {
	isHTTP := m.Type == cloudv1.ProtocolHTTP || m.Type == cloudv1.ProtocolHTTPS
	switch {
	case isHTTP && m.Path != "" && !strings.HasPrefix(m.Path, "/"):
		p.add(at+"/path", "must begin with /")
	case !isHTTP && m.Path != "":
		p.add(at+"/path", "requires type http or https, not %s", m.Type)
	}
	if !isHTTP && m.ExpectedCodes != "" {
		p.add(at+"/expected_codes", "requires type http or https, not %s", m.Type)
	}
	for r := range strings.SplitSeq(m.ExpectedCodes, ",") {
		if low, high, ok := strings.Cut(r, "-"); ok && low > high {
			p.add(at+"/expected_codes", "must not have a range whose end is less than its start: %q", r)
		}
	}
	if m.Type == cloudv1.ProtocolNone {
		return
	}
	if m.IntervalMS < 1000 {
		p.add(at+"/interval_ms", "must be at least 1000")
	}
	if m.TimeoutMS < 1 || m.TimeoutMS >= m.IntervalMS {
		p.add(at+"/timeout_ms", "must be at least 1 and less than interval_ms (%d), not %d", m.IntervalMS, m.TimeoutMS)
	}
	if m.Rise < 1 {
		p.add(at+"/rise", "must be at least 1")
	}
	if m.Fall < 1 {
		p.add(at+"/fall", "must be at least 1")
	}
}

// AddressProblem returns what is wrong with an address of a family, or an empty string.
func AddressProblem(family, address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" {
		return fmt.Sprintf("must be an IP address, not %q", address)
	}
	if got := cloudv1.FamilyOf(a); got != family {
		return fmt.Sprintf("must be an address of family %s, not %q", family, address)
	}
	return ""
}

// MemberProblem returns what is wrong with an address of a family as that of a member, or an empty string.
func MemberProblem(family, address string) string {
	if problem := AddressProblem(family, address); problem != "" {
		return problem
	}
	if !cloudv1.IsHost(netip.MustParseAddr(address)) {
		return fmt.Sprintf(
			"must be the address of one host, and not loopback, unspecified, link-local, multicast, broadcast or IPv4-mapped, as %q is",
			address,
		)
	}
	return ""
}
