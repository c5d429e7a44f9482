//go:build linux

package kernel

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/kernel/nft"
)

// newConnection matches the first packet of a TCP connection.
const newConnection = "tcp flags & (fin | syn | rst | ack) == syn"

// renderer writes rulesets. It keeps the tables of places, which take some time to build.
type renderer struct {
	// flows is how many flows are remembered in common, and connections how many an address may have.
	flows       uint64
	connections int
	router      bool
	// places are the tables by content, and used those of the last ruleset.
	places map[string]*nft.Map
}

// render returns the ruleset that does what the services say.
func (r *renderer) render(services []*service, p *plan) *nft.Ruleset {
	rs := nft.NewRuleset()
	static(rs, r.flows, r.connections, r.router)
	for _, a := range p.addresses {
		rs.Maps["addresses"+suffixOf(a)].Elements[a.String()] = ""
	}
	for a, o := range p.owners {
		rs.Counters[o.crowded()] = true
		rs.AddChain(o.crowded(), fmt.Sprintf("counter name %q", o.crowded()), "goto refuse")
		rs.Maps[crowdedMap+suffixOf(a)].Elements[a.String()] = "goto " + o.crowded()
	}
	used := make(map[string]*nft.Map, len(r.places))
	for _, s := range services {
		r.service(rs, s, used)
	}
	r.places = used
	return rs
}

func suffixOf(a netip.Addr) string {
	if a.Is6() {
		return "6"
	}
	return "4"
}

func endpoint(protocol string, at netip.AddrPort) string {
	return fmt.Sprintf("%s . %s . %d", at.Addr(), protocol, at.Port())
}

func (r *renderer) service(rs *nft.Ruleset, s *service, used map[string]*nft.Map) {
	for _, name := range []string{"refused/", "traffic/"} {
		rs.Counters[name+s.id.String()] = true
	}
	if s.protocol == cloudv1.ProtocolTCP {
		rs.Counters["accepted/"+s.id.String()] = true
	}
	at := endpoint(s.protocol, s.at)
	point := func(name, target string) { rs.Maps[name+s.suffix()].Elements[at] = target }
	point(chooseMap, "jump "+r.choose(rs, s, used))
	if s.nat {
		for _, m := range s.open {
			rs.Maps[targetMap+s.suffix()].Elements[mark(m.mark)] = fmt.Sprintf("%s . %d", m.target.address, m.target.port)
		}
		rs.AddChain("guard/"+s.id.String(), s.guard()...)
		rs.AddChain("nat/"+s.id.String(), s.translate()...)
		point(guardMap, "goto guard/"+s.id.String())
		point(natMap, "goto nat/"+s.id.String())
		point(rawMap, "goto "+rs.Share("timeout", fmt.Sprintf("ct timeout set %q", s.conntrackTimeout(rs))))
		return
	}
	flows := r.remember(rs, s)
	rs.AddChain("direct/"+s.id.String(), s.direct(flows)...)
	point(rawMap, "goto direct/"+s.id.String())
	rs.Maps[answerSet+s.suffix()].Elements[at] = ""
	point(knownMap, "jump "+rs.Share("known", s.known()...))
}

// ownFlows is which part of the common flows each load balancer has in addition, for itself.
const ownFlows = 512

// remember adds the flows that only the load balancer of the listener has, and returns the names of the maps with its
// flows: what does not fit into its own is remembered in common with others, as far as that has room.
func (r *renderer) remember(rs *nft.Ruleset, s *service) []string {
	own, common := s.owner().flows(s.protocol), "flows/"+s.maps()
	f := rs.Flows[common]
	f.Size = max(r.flows/ownFlows, 1)
	rs.Flows[own] = f
	rs.Counters[s.owner().forgotten()] = true
	names := []string{own, common}
	var rules []string
	for _, name := range names {
		rules = append(rules, fmt.Sprintf("delete @%s { %s : meta mark }", name, flowKeys[s.suffix()]))
	}
	rs.AddChain("forget/"+own, append(rules, "meta mark set 0")...)
	return names
}

// direct returns the rules for the packets of a listener that are forwarded unchanged.
func (s *service) direct(flows []string) []string {
	rules := []string{"notrack"}
	rules = append(rules, s.allow()...)
	rules = append(rules, "meta mark set 0")
	for _, name := range flows {
		rules = append(rules, fmt.Sprintf("meta mark 0 meta mark set %s map @%s", flowKeys[s.suffix()], name))
	}
	rules = append(rules,
		fmt.Sprintf("meta mark != 0 %s vmap @%s", s.key(), knownMap+s.suffix()),
		fmt.Sprintf("meta mark %s jump forget/%s", mark(markPrefix), flows[0]),
	)
	isNew := newConnection
	if s.protocol == cloudv1.ProtocolUDP {
		isNew = "meta mark 0"
	}
	rules = append(rules, s.limit(isNew)...)
	rules = append(rules,
		fmt.Sprintf("meta mark 0 %s vmap @%s", s.key(), chooseMap+s.suffix()),
		"meta mark 0 goto refuse",
	)
	rules = append(rules, s.count(newConnection)...)
	for _, name := range flows {
		// The rule ends before its verdict if there is no room.
		rules = append(rules, fmt.Sprintf("update @%s { %s timeout %s : meta mark } accept",
			name, flowKeys[s.suffix()], seconds(s.idleTimeout())))
	}
	return append(rules, fmt.Sprintf("counter name %q accept", s.owner().forgotten()))
}

// guard returns the rules for the packets of a NAT listener after conntrack.
func (s *service) guard() []string {
	rules := s.allow()
	rules = append(rules, s.limit("ct state new")...)
	if len(s.open) == 0 {
		rules = append(rules, "ct state new goto refuse")
	}
	return append(rules, s.count("ct state new")...)
}

// translate returns the rules for the first packet of a flow of a NAT listener.
func (s *service) translate() []string {
	return []string{
		"meta mark set 0",
		fmt.Sprintf("%s vmap @%s", s.key(), chooseMap+s.suffix()),
		fmt.Sprintf("meta l4proto %s ct mark set meta mark dnat %s to meta mark map @%s", s.protocol, s.ip(), targetMap+s.suffix()),
	}
}

// known returns the rules that check the mark of a known flow: the flow of a member that is gone is forgotten. If the
// client starts a new connection with an old port, so is that of a draining member and, if the port must not matter,
// every flow: it may be older than that.
func (s *service) known() []string {
	// No member has this mark. The chain that forgets is the load balancer's, but this one is that of all with the same
	// members.
	forget := " meta mark set " + mark(markPrefix)
	var rules []string
	if s.protocol == cloudv1.ProtocolTCP {
		stays := unless(s.marks())
		if s.sticky {
			stays = ""
		}
		rules = append(rules, newConnection+stays+forget)
	}
	return append(rules, strings.TrimSpace(unless(s.kept)+forget))
}

// unless matches all marks but these.
func unless(marks []uint32) string {
	if len(marks) == 0 {
		return ""
	}
	names := make([]string, len(marks))
	for i, m := range marks {
		names[i] = mark(m)
	}
	return " meta mark != { " + strings.Join(names, ", ") + " }"
}

// choose adds the chain that sets the mark of a new flow, if there is a member for it, and returns its name.
func (r *renderer) choose(rs *nft.Ruleset, s *service, used map[string]*nft.Map) string {
	if len(s.open) == 0 {
		return rs.Share("choose")
	}
	source := s.ip() + " saddr"
	if !s.sticky {
		source += " . th sport"
	}
	table := r.table(rs, s, used)
	return rs.Share("choose", fmt.Sprintf("meta mark set jhash %s mod %d seed %s map @%s", source, places, hashSeed, table))
}

// table adds the table of places of the members, and returns its name.
func (r *renderer) table(rs *nft.Ruleset, s *service, used map[string]*nft.Map) string {
	var content strings.Builder
	if s.units < maxUnits {
		fmt.Fprintf(&content, "%d units\n", s.units)
	}
	for _, m := range s.open {
		fmt.Fprintf(&content, "%s %d %d\n", m.target, m.mark, m.weight)
	}
	name := "places/" + nft.Digest(content.String())
	t := cmp.Or(used[name], r.places[name])
	if t == nil {
		t = &nft.Map{
			TypeOf: fmt.Sprintf("numgen inc mod %d : meta mark", places), Elements: make(map[string]string, places),
		}
		for place, m := range rendezvous(s.open, s.units) {
			t.Elements[strconv.Itoa(place)] = mark(m)
		}
	}
	used[name], rs.Maps[name] = t, t
	return name
}

// allow returns the rules that keep out clients of other ranges.
func (s *service) allow() []string {
	if s.sources == nil {
		return nil
	}
	refuse := fmt.Sprintf("counter name %q drop", "refused/"+s.id.String())
	if len(s.sources) == 0 {
		return []string{refuse}
	}
	ranges := make([]string, len(s.sources))
	for i, p := range s.sources {
		ranges[i] = p.String()
	}
	return []string{fmt.Sprintf("%s saddr != { %s } %s", s.ip(), strings.Join(ranges, ", "), refuse)}
}

// limit returns the rules that keep out new flows above the rate.
func (s *service) limit(isNew string) []string {
	if s.maxQPS <= 0 {
		return nil
	}
	verdict := "drop"
	if s.protocol == cloudv1.ProtocolTCP {
		verdict = "reject with tcp reset"
	}
	return []string{fmt.Sprintf("%s limit rate over %s counter name %q %s", isNew, rate(s.maxQPS), "refused/"+s.id.String(), verdict)}
}

// burstTime is for how long a limit may make up for what it did not use. Shorter times admit less than the limit when
// packets arrive in batches; longer ones admit noticeably more when traffic begins.
const burstTime = 80 * time.Millisecond

// rate returns a rate in the largest unit that nftables needs for it: it knows only integers.
func rate(perSecond float64) string {
	burst := max(1, math.Ceil(perSecond*burstTime.Seconds()))
	amount, unit := perSecond, "second"
	for _, next := range []struct {
		unit   string
		factor float64
	}{{"minute", 60}, {"hour", 60}} {
		if amount == math.Trunc(amount) {
			break
		}
		amount *= next.factor
		unit = next.unit
	}
	return fmt.Sprintf("%d/%s burst %d packets", max(1, int64(math.Round(amount))), unit, int64(burst))
}

// count returns the rules that count what was let through.
func (s *service) count(isNew string) []string {
	traffic := fmt.Sprintf("counter name %q", "traffic/"+s.id.String())
	if s.protocol == cloudv1.ProtocolUDP {
		return []string{traffic}
	}
	return []string{fmt.Sprintf("%s counter name %q", isNew, "accepted/"+s.id.String()), traffic}
}

// conntrackTimeout adds the timeout of the service's flows in conntrack, and returns its name.
func (s *service) conntrackTimeout(rs *nft.Ruleset) string {
	idle := int64(math.Ceil(s.idleTimeout().Seconds()))
	t := nft.Timeout{Protocol: s.protocol, Family: s.ip(), Policy: fmt.Sprintf("replied : %d, unreplied : %[1]d", idle)}
	if s.protocol == cloudv1.ProtocolTCP {
		t.Policy = fmt.Sprintf("established : %d", idle)
	}
	name := fmt.Sprintf("%s-%d", s.maps(), idle)
	rs.Timeouts[name] = t
	return name
}

func (s *service) idleTimeout() time.Duration {
	switch {
	case s.idle > 0:
		return s.idle
	case s.protocol == cloudv1.ProtocolUDP:
		return udpIdle
	case s.nat:
		// The default of most load balancers' conntrack; a connection cannot be found again without its entry.
		return natIdle
	}
	return tcpIdle
}

// natIdle is how long a TCP connection of a NAT listener may be idle.
const natIdle = time.Hour

// key returns the key of the maps of listeners.
func (s *service) key() string {
	return s.ip() + " daddr . meta l4proto . th dport"
}

// maps returns the second part of the names of flow maps.
func (s *service) maps() string {
	return s.protocol + s.suffix()
}

func mark(m uint32) string {
	return fmt.Sprintf("%#x", m)
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) + "s"
}
