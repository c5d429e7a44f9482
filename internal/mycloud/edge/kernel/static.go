//go:build linux

package kernel

import (
	"fmt"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/kernel/nft"
)

// hashSeed is the seed of all hashes. It must be the same on all edges, forever.
const hashSeed = "0x4d43"

const (
	// maxTracked is how many parts of addresses can have connections at a time.
	maxTracked = 1 << 18
	// maxCounted is how many connections are counted together. The kernel looks at all of them for each new one: with
	// 18,000, an address of one load balancer kept a core busy by a few hundred new connections per second.
	maxCounted = 128
)

// The times for which flows are remembered that their listeners set no idle timeout for.
const (
	tcpIdle = 5 * time.Minute
	udpIdle = 30 * time.Second
)

// The maps from a listener's address, protocol and port to what handles its packets. Each has an IPv4 and an IPv6 form.
const (
	// rawMap leads to the chain that sees packets before conntrack.
	rawMap = "listeners"
	// guardMap and natMap lead to the chains that see packets of NAT listeners after conntrack.
	guardMap = "guards"
	natMap   = "nat"
	// knownMap leads to the chain that checks the mark of a known flow, and chooseMap to the chain that sets one.
	knownMap  = "known"
	chooseMap = "choose"
	// targetMap has the address and port of each mark of NAT listeners.
	targetMap = "targets"
	// trackedSet counts the connections of each address that conntrack knows, and crowdedMap leads to the chain for those
	// beyond the share of the address.
	trackedSet = "tracked"
	crowdedMap = "crowded"
	// answerSet has the addresses and ports of direct listeners, from which nodes answer.
	answerSet = "answers"
)

// static adds to a ruleset the objects that are always there. Base chains are never changed: hooking one again loses packets.
func static(r *nft.Ruleset, flows uint64, connections int, router bool) {
	r.Chains["hook/raw"] = &nft.Chain{Hook: &nft.Hook{Type: "filter", At: "prerouting", Priority: -300}, Rules: []string{
		"ip daddr . meta l4proto . th dport vmap @listeners4",
		"ip6 daddr . meta l4proto . th dport vmap @listeners6",
		// Answers of nodes that use the machine as their router: conntrack would take each for a new connection.
		"ip saddr . meta l4proto . th sport @answers4 notrack",
		"ip6 saddr . meta l4proto . th sport @answers6 notrack",
	}}
	r.Chains["hook/guard"] = &nft.Chain{Hook: &nft.Hook{Type: "filter", At: "prerouting", Priority: -110}, Rules: []string{
		crowded("ip", "4", connections),
		crowded("ip6", "6", connections),
		"ip daddr . meta l4proto . th dport vmap @guards4",
		"ip6 daddr . meta l4proto . th dport vmap @guards6",
	}}
	r.Chains["hook/nat"] = &nft.Chain{Hook: &nft.Hook{Type: "nat", At: "prerouting", Priority: -100}, Rules: []string{
		"ip daddr . meta l4proto . th dport vmap @nat4",
		"ip6 daddr . meta l4proto . th dport vmap @nat6",
	}}
	r.Chains["hook/masquerade"] = &nft.Chain{Hook: &nft.Hook{Type: "nat", At: "postrouting", Priority: 100}, Rules: []string{
		fmt.Sprintf("ct mark and %#x == %#x masquerade", markMask, markPrefix),
	}}
	// Programs of the machine that listen on all addresses must not be reached by those of load balancers. The sockets of
	// the proxy are transparent, and those of no other program: what it really serves is open, whatever was asked for.
	r.Chains["hook/input"] = &nft.Chain{Hook: &nft.Hook{Type: "filter", At: "input", Priority: 0}, Rules: []string{
		"ip daddr @addresses4 meta l4proto { tcp, udp } socket transparent 0 goto refuse",
		"ip6 daddr @addresses6 meta l4proto { tcp, udp } socket transparent 0 goto refuse",
	}}
	r.Chains["hook/forward"] = &nft.Chain{Hook: &nft.Hook{Type: "filter", At: "forward", Priority: 0}, Rules: forwarding(router)}
	// Where client and node are on one network, the kernel would send the client past the edge.
	r.Chains["hook/output"] = &nft.Chain{Hook: &nft.Hook{Type: "filter", At: "output", Priority: 0}, Rules: []string{
		"icmp type redirect drop",
		"icmpv6 type nd-redirect drop",
	}}
	r.AddChain("refuse", "meta l4proto tcp reject with tcp reset", "reject with icmpx port-unreachable")

	for suffix, address := range map[string]string{"4": "ipv4_addr", "6": "ipv6_addr"} {
		endpoint := address + " . inet_proto . inet_service"
		for _, name := range []string{rawMap, guardMap, natMap, knownMap, chooseMap} {
			r.Maps[name+suffix] = &nft.Map{Type: endpoint + " : verdict", Elements: map[string]string{}}
		}
		r.Maps[crowdedMap+suffix] = &nft.Map{Type: address + " : verdict", Elements: map[string]string{}}
		r.Maps[targetMap+suffix] = &nft.Map{
			Type: "mark : " + address + " . inet_service", Elements: map[string]string{}, Lasting: true,
		}
		r.Maps[answerSet+suffix] = &nft.Map{Type: endpoint, Set: true, Elements: map[string]string{}}
		r.Flows[trackedSet+suffix] = nft.Flows{
			TypeOf: ipOf(suffix) + " daddr . numgen inc mod 4294967295", Set: true, Size: maxTracked,
		}
		r.Maps["addresses"+suffix] = &nft.Map{Type: address, Set: true, Elements: map[string]string{}}
	}
	for _, protocol := range []string{cloudv1.ProtocolTCP, cloudv1.ProtocolUDP} {
		r.Flows["flows/"+protocol+"4"] = nft.Flows{
			Type: "ipv4_addr . ipv4_addr . inet_service . inet_service : mark", Timeout: tcpIdle, Size: flows,
		}
		// nft 1.0.6 cannot write keys of more than 16 bytes to a map, so that IPv6 addresses are hashed.
		r.Flows["flows/"+protocol+"6"] = nft.Flows{
			TypeOf: "numgen inc mod 4294967295 . th sport . th dport : meta mark", Timeout: tcpIdle, Size: flows,
		}
	}
}

// crowded returns the rule for connections beyond the share of their address, so that conntrack has room for others: when
// it is full, it drops the new connections of all. The share is divided among parts of the clients, at random, each with
// a count of its own.
func crowded(ip, suffix string, connections int) string {
	parts := connections/maxCounted + 1
	return fmt.Sprintf("ct state new %[1]s daddr @addresses%[2]s "+
		"add @%[3]s%[2]s { %[1]s daddr . jhash %[1]s saddr . th sport mod %[4]d seed %[5]s ct count over %[6]d } "+
		"%[1]s daddr vmap @%[7]s%[2]s",
		ip, suffix, trackedSet, parts, hashSeed, connections/parts, crowdedMap)
}

func ipOf(suffix string) string {
	if suffix == "6" {
		return "ip6"
	}
	return "ip"
}

// forwarding returns the rules for packets to other machines: those of listeners, and the answers of nodes that use the
// machine as their router.
func forwarding(router bool) []string {
	if router {
		return []string{"accept"}
	}
	return []string{
		fmt.Sprintf("meta mark and %#x == %#x accept", markMask, markPrefix),
		fmt.Sprintf("ct mark and %#x == %#x accept", markMask, markPrefix),
		"ip saddr . meta l4proto . th sport @answers4 accept",
		"ip6 saddr . meta l4proto . th sport @answers6 accept",
		"drop",
	}
}

// flowKeys are the keys of flows.
var flowKeys = map[string]string{
	"4": "ip saddr . ip daddr . th sport . th dport",
	"6": "jhash ip6 saddr . ip6 daddr mod 4294967295 seed " + hashSeed + " . th sport . th dport",
}
