package catalog

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// own are the behaviours of Quaymaster's own catalog.
var own = map[string]Behaviour{
	"less": {
		Help:     "At every port, the value of key is less than that of than; key is blamed if it is set, else than.",
		Args:     []string{"key", "than"},
		JudgeAll: less,
	},
	"terminating": {
		Help:  "No listener of the key protocols is http or https, or uses the protocol of proxy, so that nodes may bypass it.",
		Args:  []string{"protocols", "proxy"},
		Judge: terminating,
	},
	"source-ranges": {
		Help:     "Every range of spec.loadBalancerSourceRanges, or of the older annotation, is a CIDR.",
		JudgeAll: invalidSourceRanges,
	},
	"source-range-families": {
		Help:     "Every range of sources is of an address family that the Service has.",
		JudgeAll: foreignSourceRanges,
	},
}

// less blames the annotation that the user wrote: the default of the other is not at fault.
func less(s Subject) []Problem {
	key, than := s.With["key"], s.With["than"]
	smaller, found1 := s.Other(key)
	greater, found2 := s.Other(than)
	if !found1 || !found2 || smaller.Number < greater.Number {
		return nil
	}
	describe := func(key, raw string) string {
		if set := s.view.Governor(key, s.scope.port-1); set != nil {
			return set.Raw
		}
		return raw + " by default"
	}
	if s.view.Governor(key, s.scope.port-1) != nil {
		return []Problem{{At: key, Must: "be less than " + than + ", which is " + describe(than, greater.Text)}}
	}
	return []Problem{{At: than, Must: "be greater than " + key + ", which is " + describe(key, smaller.Text)}}
}

// terminating lists the listeners whose traffic must pass through the load balancer.
func terminating(s Subject) string {
	var listeners []string
	for i, p := range s.Service.Spec.Ports {
		protocol, known := s.view.PortValue(s.With["protocols"], i)
		if !known || p.Protocol == corev1.ProtocolSCTP {
			continue
		}
		proxy, known := s.view.PortValue(s.With["proxy"], i)
		if protocol.Text == "http" || protocol.Text == "https" || known && proxy.Text != "" && proxy.Text != "none" {
			listeners = append(listeners, Listener(p))
		}
	}
	if len(listeners) == 0 {
		return ""
	}
	return "not be vip with http, https or PROXY protocol listeners (" + strings.Join(listeners, ", ") + "): nodes would bypass the load balancer"
}

// SourceRange is one range of clients that may connect.
type SourceRange struct {
	// Path is where Text is written.
	Path, Text string
	Prefix     netip.Prefix
	// Valid is false if Text is not a CIDR.
	Valid bool
}

// SourceRanges parses the ranges of the spec, else those of the older annotation, as kube-proxy does.
func SourceRanges(svc *corev1.Service) []SourceRange {
	var ranges []SourceRange
	for i, text := range svc.Spec.LoadBalancerSourceRanges {
		ranges = append(ranges, newSourceRange(field.NewPath("spec", "loadBalancerSourceRanges").Index(i).String(), text))
	}
	if raw := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; len(ranges) == 0 && strings.TrimSpace(raw) != "" {
		for text := range strings.SplitSeq(raw, ",") {
			ranges = append(ranges, newSourceRange(Path(corev1.AnnotationLoadBalancerSourceRangesKey), text))
		}
	}
	return ranges
}

// newSourceRange parses a range as the API server does, which accepts leading zeros in stored objects.
func newSourceRange(path, text string) SourceRange {
	r := SourceRange{Path: path, Text: text}
	_, network, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
	if err != nil {
		return r
	}
	addr, ok := netip.AddrFromSlice(network.IP)
	ones, _ := network.Mask.Size()
	r.Prefix, r.Valid = netip.PrefixFrom(addr, ones).Masked(), ok
	return r
}

// invalidSourceRanges fails closed: an invalid range is an error, so that no list is ever shorter than meant.
func invalidSourceRanges(s Subject) []Problem {
	var problems []Problem
	for _, r := range SourceRanges(s.Service) {
		if !r.Valid {
			problems = append(problems, Problem{Path: r.Path, Value: r.Text, Must: "be a CIDR such as 10.0.0.0/8 or 2001:db8::/32"})
		}
	}
	return problems
}

func foreignSourceRanges(s Subject) []Problem {
	var problems []Problem
	for _, r := range SourceRanges(s.Service) {
		if !r.Valid || len(s.Service.Spec.IPFamilies) == 0 {
			continue
		}
		family := corev1.IPv6Protocol
		if r.Prefix.Addr().Unmap().Is4() {
			family = corev1.IPv4Protocol
		}
		if !slices.Contains(s.Service.Spec.IPFamilies, family) {
			must := fmt.Sprintf("be of a family in spec.ipFamilies; %s is %s and matches no client", r.Text, family)
			problems = append(problems, Problem{Path: r.Path, Value: r.Text, Must: must})
		}
	}
	return problems
}
