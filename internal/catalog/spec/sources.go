package spec

import (
	"iter"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// SourceRange is one range of clients that may connect.
type SourceRange struct {
	// Path is the field that contains Text.
	Path, Text string
	Prefix     netip.Prefix
	// Valid is false if Text is not a CIDR.
	Valid bool
}

// SourceRanges parses the ranges of the spec, else those of the older annotation, as kube-proxy does. They are parsed
// one by one, because an annotation has room for very many.
func SourceRanges(svc *corev1.Service) iter.Seq[SourceRange] {
	return func(yield func(SourceRange) bool) {
		for i, text := range svc.Spec.LoadBalancerSourceRanges {
			path := field.NewPath("spec", "loadBalancerSourceRanges").Index(i)
			if !yield(newSourceRange(path.String(), text)) {
				return
			}
		}
		const key = corev1.AnnotationLoadBalancerSourceRangesKey
		raw := svc.Annotations[key]
		if len(svc.Spec.LoadBalancerSourceRanges) > 0 || strings.TrimSpace(raw) == "" {
			return
		}
		path := field.NewPath("metadata", "annotations").Key(key).String()
		for text := range strings.SplitSeq(raw, ",") {
			if !yield(newSourceRange(path, text)) {
				return
			}
		}
	}
}

// newSourceRange parses a range as the API server does, which accepts leading zeros in stored objects.
func newSourceRange(path, text string) SourceRange {
	r := SourceRange{Path: path, Text: text}
	if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
		// What is valid for both means the same, and is parsed in a fraction of the time.
		r.Prefix, r.Valid = prefix.Masked(), true
		return r
	}
	_, network, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
	if err != nil {
		return r
	}
	addr, ok := netip.AddrFromSlice(network.IP)
	ones, _ := network.Mask.Size()
	r.Prefix, r.Valid = netip.PrefixFrom(addr, ones).Masked(), ok
	return r
}
