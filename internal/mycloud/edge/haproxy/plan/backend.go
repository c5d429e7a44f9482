package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// What monitors do that leave something open.
const (
	defaultInterval = 10 * time.Second
	defaultTimeout  = 5 * time.Second
	defaultRise     = 2
	defaultFall     = 3
	defaultCodes    = "200-399"
	maxPath         = 1024
	maxChecks       = 1000
	shortestPause   = 100 * time.Millisecond
	// slack is how much later than interval × fall a dead member may be out.
	slack = 500 * time.Millisecond
)

// maxWeight keeps products of weights within an int.
const maxWeight = 1 << 20

const (
	// weightSteps is the highest weight that HAProxy accepts.
	weightSteps = 256
	// hashSteps is the highest weight in pools that hash, to which weights are stretched: each unit of weight adds 16 points
	// to the ring, and few points distribute badly.
	hashSteps = 64
	// mostUnits is how many units of weight the pools of a load balancer that hash have, or one for each member. A million of
	// them take HAProxy 5 seconds and 1 GiB each time it loads its configuration, while all others wait.
	mostUnits = 1 << 13
)

var (
	codes = regexp.MustCompile(`^[1-5][0-9]{2}(-[1-5][0-9]{2})?(,[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$`)
	path  = regexp.MustCompile(`^/[[:graph:]]*$`)
)

// kindOf returns how a listener uses a pool, and the options of servers that make them send the PROXY protocol. Listeners
// of one kind have a backend of a pool in common.
func kindOf(l *config.Listener) (kind, sendProxy string, err error) {
	kind = modeOf(l)
	if l == nil {
		return kind, "", nil
	}
	switch p := l.Protocol; p {
	case cloudv1.ProtocolTCP, cloudv1.ProtocolHTTP, cloudv1.ProtocolHTTPS:
	default:
		return "", "", fmt.Errorf("protocol %q cannot be proxied", p)
	}
	switch version := l.ProxyProtocol; version {
	case "", cloudv1.ProxyProtocolNone:
		return kind, "", nil
	case cloudv1.ProxyProtocolV1:
		return kind + "-v1", " send-proxy", nil
	case cloudv1.ProxyProtocolV2:
		return kind + "-v2", " send-proxy-v2", nil
	default:
		return "", "", fmt.Errorf("version %q of the PROXY protocol is unknown", version)
	}
}

// backendOf returns the backend of a pool as the listener uses it, and what is wrong with members that it goes without. A
// backend that hashes has that many units of weight, or one for each member.
func backendOf(u Unit, units int) (*Backend, []error, error) {
	kind, sendProxy, err := kindOf(u.Listener)
	if err != nil {
		return nil, nil, err
	}
	b := &Backend{
		Unit: u, Pool: *u.Pool, Name: backendName(u.Pool.ID, kind), Mode: modeOf(u.Listener), Idle: defaultIdle, Connect: connectTimeout,
		Options: sendProxy,
	}
	switch u.Pool.Algorithm {
	case cloudv1.AlgorithmSourceIP:
		// What is only checked balances nothing.
		b.Hash = u.Listener != nil
	case cloudv1.AlgorithmLeastConnections:
		b.Least = true
	case cloudv1.AlgorithmRoundRobin, cloudv1.AlgorithmWeightedRoundRobin:
	default:
		return nil, nil, fmt.Errorf("algorithm %q is unknown", u.Pool.Algorithm)
	}
	if u.Pool.Monitor != nil {
		m, err := monitorOf(u.Pool.Monitor)
		if err != nil {
			return nil, nil, fmt.Errorf("health monitor: %w", err)
		}
		b.Monitor, b.Connect = m, min(b.Connect, m.Limit)
		b.Options += m.options()
	}
	faulty := b.addServers(u, sendProxy != "", units)
	return b, faulty, nil
}

// intervalOf returns the time between two checks of a member.
func intervalOf(m *config.Monitor) time.Duration { return cmp.Or(limited(m.Interval), defaultInterval) }

func monitorOf(m *config.Monitor) (*monitor, error) {
	r := &monitor{
		Port:     m.Port,
		Interval: intervalOf(m), Limit: cmp.Or(limited(m.Timeout), defaultTimeout),
		Rise: cmp.Or(min(max(m.Rise, 0), maxChecks), defaultRise), Fall: cmp.Or(min(max(m.Fall, 0), maxChecks), defaultFall),
	}
	// HAProxy takes the time of the next check from the end of the last, so that timeouts add up. While a member changes
	// its state, checks follow faster by what they lose.
	if r.Transition = r.Interval; r.Fall > 1 {
		r.Transition = (time.Duration(r.Fall-1)*r.Interval + slack - time.Duration(r.Fall)*r.Limit) / time.Duration(r.Fall-1)
	}
	r.Transition = min(max(r.Transition, shortestPause), r.Interval).Round(time.Millisecond)
	switch m.Type {
	case cloudv1.ProtocolTCP:
		return r, nil
	case cloudv1.ProtocolHTTP, cloudv1.ProtocolHTTPS:
	default:
		return nil, fmt.Errorf("type %q is unknown", m.Type)
	}
	r.HTTP, r.TLS = true, m.Type == cloudv1.ProtocolHTTPS
	if r.Path = cmp.Or(m.Path, "/"); len(r.Path) > maxPath || !path.MatchString(r.Path) {
		return nil, fmt.Errorf("path %q must start with / and consist of printable ASCII characters without spaces", r.Path)
	}
	if r.Codes = cmp.Or(m.ExpectedCodes, defaultCodes); !codes.MatchString(r.Codes) {
		return nil, fmt.Errorf("codes %q must be a list such as 200-299,404", r.Codes)
	}
	for part := range strings.SplitSeq(r.Codes, ",") {
		if low, high, ok := strings.Cut(part, "-"); ok && low > high {
			return nil, fmt.Errorf("codes %q must be in ascending order", part)
		}
	}
	return r, nil
}

func (m *monitor) options() string {
	o := fmt.Sprintf(" check inter %s fastinter %s rise %d fall %d on-marked-down shutdown-sessions",
		milliseconds(m.Interval), milliseconds(m.Transition), m.Rise, m.Fall)
	if m.TLS {
		o += " check-ssl verify none"
	}
	return o
}

// addServers adds the members, and returns what is wrong with those that it leaves out.
func (b *Backend) addServers(u Unit, sendsProxy bool, units int) (faulty []error) {
	highest := 1
	for _, m := range u.Pool.Members {
		highest = max(highest, min(m.Weight, maxWeight))
	}
	steps := b.steps(highest, units)
	names, ids := map[string]bool{}, map[uint32]bool{}
	for _, m := range u.Pool.Members {
		s := Server{Member: m, Address: addressOf(u, m), Options: b.Options}
		port := s.Address.Port()
		if !m.Address.IsValid() || m.Address.Zone() != "" || port == 0 {
			faulty = append(faulty, fmt.Errorf("member %q has no address and port", m.Key))
			continue
		}
		s.Name = serverName(m.Key, s.Address)
		if names[s.Name] {
			faulty = append(faulty, fmt.Errorf("member %q is listed twice", m.Key))
			continue
		}
		s.ID = serverID(s.Name, ids)
		names[s.Name], ids[s.ID] = true, true
		if b.Monitor != nil {
			s.Options += fmt.Sprintf(" port %d", cmp.Or(b.Monitor.Port, port))
			if sendsProxy && cmp.Or(b.Monitor.Port, port) == port {
				s.Options += " check-send-proxy"
			}
		}
		s.Weight = b.weight(m, highest, steps)
		b.Servers = append(b.Servers, s)
	}
	return faulty
}

// addressOf returns where HAProxy connects to a member of a unit.
func addressOf(u Unit, m config.Member) netip.AddrPort {
	port := u.Pool.PortOf(m)
	if port == 0 && u.Listener == nil {
		// The member is only checked.
		port = u.Pool.Monitor.Port
	}
	return netip.AddrPortFrom(m.Address.Unmap(), port)
}

// steps returns the weight that HAProxy gets for a member with the highest weight, if weights are stretched. It changes by
// powers of two, so that a client whose members come and go moves seldom.
func (b *Backend) steps(highest, units int) int {
	if !b.Hash {
		return weightSteps
	}
	steps := hashSteps
	for ; steps > 1; steps /= 2 {
		used := 0
		for _, m := range b.Pool.Members {
			used += stretched(m.Weight, highest, steps)
		}
		if used <= units {
			break
		}
	}
	return steps
}

// weight returns the weight that HAProxy gets for a member. A server of weight 0 keeps its connections and gets no new
// ones.
func (b *Backend) weight(m config.Member, highest, steps int) int {
	if m.Draining || m.Weight <= 0 {
		return 0
	}
	if b.Pool.Algorithm == cloudv1.AlgorithmRoundRobin {
		return 1
	}
	if b.Hash || highest > weightSteps {
		return stretched(m.Weight, highest, steps)
	}
	return m.Weight
}

func stretched(weight, highest, steps int) int {
	return max(1, min(weight, maxWeight)*steps/highest)
}
