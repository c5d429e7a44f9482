package spec

import (
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

// SourceRanges parses the ranges of the spec, else those of the older annotation, as kube-proxy does.
func SourceRanges(svc *corev1.Service) []SourceRange {
	const key = corev1.AnnotationLoadBalancerSourceRangesKey
	var ranges []SourceRange
	for i, text := range svc.Spec.LoadBalancerSourceRanges {
		path := field.NewPath("spec", "loadBalancerSourceRanges").Index(i)
		ranges = append(ranges, newSourceRange(path.String(), text))
	}
	if raw := svc.Annotations[key]; len(ranges) == 0 && strings.TrimSpace(raw) != "" {
		path := field.NewPath("metadata", "annotations").Key(key)
		for text := range strings.SplitSeq(raw, ",") {
			ranges = append(ranges, newSourceRange(path.String(), text))
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
