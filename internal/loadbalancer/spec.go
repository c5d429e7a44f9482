package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quaymaster.dev/internal/finding"
)

// sourceRange is one range of clients with the path that names it.
type sourceRange struct{ path, text string }

// sourceRanges are those of the spec, else those of the older annotation, as in kube-proxy.
func sourceRanges(svc *corev1.Service) []sourceRange {
	var ranges []sourceRange
	for i, text := range svc.Spec.LoadBalancerSourceRanges {
		ranges = append(ranges, sourceRange{field.NewPath("spec", "loadBalancerSourceRanges").Index(i).String(), text})
	}
	if raw := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; len(ranges) == 0 && strings.TrimSpace(raw) != "" {
		for text := range strings.SplitSeq(raw, ",") {
			ranges = append(ranges, sourceRange{annotations.Key(corev1.AnnotationLoadBalancerSourceRangesKey).String(), text})
		}
	}
	return ranges
}

// readSources fails closed: a range that cannot be read is an error, so that no list is ever shorter than meant.
func (s *settings) readSources() {
	for _, r := range sourceRanges(s.svc) {
		prefix, ok := parsePrefix(strings.TrimSpace(r.text))
		if !ok {
			s.report(finding.Finding{
				ID: idSourceRange, Type: field.ErrorTypeInvalid, Field: r.path, Value: r.text,
				Message: "must be a range of addresses such as 10.0.0.0/8 or 2001:db8::/32",
				Remedy:  "correct the range; until then the load balancer stays as it is",
			})
			continue
		}
		if family := familyOf(prefix.Addr()); len(s.svc.Spec.IPFamilies) > 0 && !slices.Contains(families(s.svc), family) {
			s.report(finding.Finding{
				ID: idSourceFamily, Severity: finding.Warning, Field: r.path, Value: r.text,
				Message: r.text + " is " + family + ", which is not among spec.ipFamilies, so nobody matches it",
				Remedy:  "remove the range or add the family",
			})
		}
		s.sources = append(s.sources, prefix.Masked())
	}
}

// parsePrefix reads a range as the API server does, which knows stored ones with leading zeros.
func parsePrefix(text string) (netip.Prefix, bool) {
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(network.IP)
	ones, _ := network.Mask.Size()
	return netip.PrefixFrom(addr, ones), ok
}

func familyOf(a netip.Addr) string {
	if a.Unmap().Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// families are the Service's address families; ipv4 where the API server has not filled them in yet.
func families(svc *corev1.Service) []string {
	var names []string
	for _, f := range svc.Spec.IPFamilies {
		names = append(names, strings.ToLower(string(f)))
	}
	if names == nil {
		return []string{"ipv4"}
	}
	return names
}

func (s *settings) checkAddress() {
	if s.svc.Spec.LoadBalancerIP != "" {
		s.report(finding.Finding{
			ID: idAddress, Severity: finding.Warning, Field: "spec.loadBalancerIP",
			Message: "is ignored: the cloud chooses the address", Remedy: "remove it",
		})
	}
}

// unowned warns of keys that nobody will read, on load balancers of another class.
func unowned(svc *corev1.Service, o Options) []finding.Finding {
	if o.Off || svc == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var findings []finding.Finding
	for key, value := range svc.Annotations {
		if strings.HasPrefix(key, Prefix) {
			findings = append(findings, finding.Finding{
				ID: idOtherClass, Severity: finding.Warning, Field: annotations.Key(key).String(), Value: value,
				Message: "has no effect with spec.loadBalancerClass " + *svc.Spec.LoadBalancerClass, Remedy: "remove it",
			})
		}
	}
	return finding.Merge(findings)
}
