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
	// Text is the range as written.
	Text   string
	Prefix netip.Prefix
	// Valid is false if Text is not a CIDR.
	Valid bool

	// index is that in the spec; -1 for a range in the annotation.
	index int
}

// Path returns the field that contains the range. Only problems need it, and most ranges have none.
func (r SourceRange) Path() string {
	if r.index < 0 {
		return field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey).String()
	}
	return field.NewPath("spec", "loadBalancerSourceRanges").Index(r.index).String()
}

// SourceRanges parses the ranges of the spec, else those of the older annotation, as kube-proxy does. They are parsed
// one by one, because an annotation has room for very many.
func SourceRanges(svc *corev1.Service) iter.Seq[SourceRange] {
	return func(yield func(SourceRange) bool) {
		for i, text := range svc.Spec.LoadBalancerSourceRanges {
			if !yield(newSourceRange(i, text)) {
				return
			}
		}
		raw := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
		if len(svc.Spec.LoadBalancerSourceRanges) > 0 || strings.TrimSpace(raw) == "" {
			return
		}
		for text := range strings.SplitSeq(raw, ",") {
			if !yield(newSourceRange(-1, text)) {
				return
			}
		}
	}
}

// newSourceRange parses a range as the API server does, which accepts leading zeros in stored objects.
func newSourceRange(index int, text string) SourceRange {
	r := SourceRange{Text: text, index: index}
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
