package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/spec"
)

// mycloudFuncs holds the functions of Quaymaster's own catalog.
var mycloudFuncs = map[string]Func{
	"less": {
		Help: "At every port, the number of key is less than the number of than. " +
			"The finding is at key if it is set, else at than.",
		Args:     []string{"key", "than"},
		CheckAll: less,
	},
	"terminating": {
		Help: "No listener is http or https in the key protocols, or uses the protocol in the key proxy, " +
			"so that nodes may bypass the load balancer.",
		Args:  []string{"protocols", "proxy"},
		Check: terminating,
	},
	"source-ranges": {
		Help:     "Every range of spec.loadBalancerSourceRanges, or of the older annotation, is a CIDR.",
		CheckAll: invalidSourceRanges,
	},
	"source-range-families": {
		Help:     "Every range of sources is of an address family that the Service has.",
		CheckAll: foreignSourceRanges,
	},
}

// less points to the annotation that the user wrote, because a default is not the user's mistake.
func less(s Subject) []Problem {
	key, than := s.With["key"], s.With["than"]
	smaller, found1 := s.Other(key)
	greater, found2 := s.Other(than)
	if !found1 || !found2 || smaller.Number < greater.Number {
		return nil
	}
	describe := func(key, byDefault string) string {
		if raw, set := s.View.Written(key); set {
			return raw
		}
		return byDefault + " by default"
	}
	if _, set := s.View.Written(key); set {
		return []Problem{{At: key, Must: "be less than " + than + ", which is " + describe(than, greater.Text)}}
	}
	return []Problem{{At: than, Must: "be greater than " + key + ", which is " + describe(key, smaller.Text)}}
}

// terminating lists the listeners whose traffic must pass through the load balancer.
func terminating(s Subject) string {
	var listeners []string
	for i, p := range s.Service.Spec.Ports {
		protocol, known := s.View.PortValue(s.With["protocols"], i)
		if !known || p.Protocol == corev1.ProtocolSCTP {
			continue
		}
		proxy, known := s.View.PortValue(s.With["proxy"], i)
		if protocol.Text == "http" || protocol.Text == "https" || known && proxy.Text != "" && proxy.Text != "none" {
			listeners = append(listeners, spec.Listener(p))
		}
	}
	if len(listeners) == 0 {
		return ""
	}
	return "not be vip with http, https or PROXY protocol listeners (" + strings.Join(listeners, ", ") +
		"): nodes would bypass the load balancer"
}

// maxProblems bounds the problems of one list: a response does not show more.
const maxProblems = 100

// invalidSourceRanges fails closed: an invalid range is an error, so that a list is never shorter than intended.
func invalidSourceRanges(s Subject) []Problem {
	var problems []Problem
	for r := range spec.SourceRanges(s.Service) {
		if len(problems) == maxProblems {
			break
		}
		if !r.Valid {
			problems = append(problems, Problem{
				Path: r.Path(), Value: r.Text, Must: "be a CIDR such as 10.0.0.0/8 or 2001:db8::/32",
			})
		}
	}
	return problems
}

func foreignSourceRanges(s Subject) []Problem {
	if len(s.Service.Spec.IPFamilies) == 0 {
		return nil // in a manifest, or before the API server has chosen them
	}
	var problems []Problem
	for r := range spec.SourceRanges(s.Service) {
		if len(problems) == maxProblems {
			break
		}
		if !r.Valid {
			continue
		}
		family := corev1.IPv6Protocol
		if r.Prefix.Addr().Unmap().Is4() {
			family = corev1.IPv4Protocol
		}
		if !slices.Contains(s.Service.Spec.IPFamilies, family) {
			must := fmt.Sprintf("be of a family in spec.ipFamilies; %s is %s and matches no client", r.Prefix, family)
			problems = append(problems, Problem{Path: r.Path(), Value: r.Text, Must: must})
		}
	}
	return problems
}
