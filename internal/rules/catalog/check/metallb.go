package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/rules/catalog/spec"
)

var metalLBFuncs = map[string]Func{
	"metallb-families": {
		Help: "The addresses are of exactly the Service's families, as far as the Service specifies them. " +
			"A check of the Service sets field, which holds the address.",
		Optional: []string{"field"},
		Check:    metalLBFamilies,
	},
	"metallb-single-family": {
		Help:  "There is one address if the Service does not specify its families, which makes it single-stack.",
		Check: metalLBSingleFamily,
	},
}

func metalLBFamilies(s Subject) string {
	list := s.Value.List
	if path := s.With["field"]; path != "" {
		list = spec.Values(s.Service, path)
	}
	requested := familiesOf(list)
	families, count := s.Service.Spec.IPFamilies, metalLBFamilyCount(s.Service)
	if len(families) == 0 {
		families = familiesOf(s.Service.Spec.ClusterIPs)
	}
	for _, family := range requested {
		if count != 0 && len(families) > 0 && !slices.Contains(families, family) {
			return fmt.Sprintf("be of the Service's families, not %s", family)
		}
	}
	switch {
	case len(requested) == 0 || count == 0 || count == len(requested):
		return ""
	case count == 1:
		return "be one address, because the Service is single-stack"
	}
	return "be one address of each family, because the Service is dual-stack"
}

// familiesOf returns the distinct families of addresses, sorted.
func familiesOf(addresses []string) []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, address := range addresses {
		if family, ok := familyOf(address); ok {
			families = append(families, family)
		}
	}
	slices.Sort(families)
	return slices.Compact(families)
}

func metalLBSingleFamily(s Subject) string {
	spec := &s.Service.Spec
	specified := len(spec.IPFamilies) > 0 || spec.IPFamilyPolicy != nil || len(spec.ClusterIPs) > 0
	if specified || len(familiesOf(s.Value.List)) < 2 {
		return ""
	}
	return "be combined with spec.ipFamilyPolicy for two addresses, because the Service is single-stack without it"
}

// metalLBFamilyCount returns the number of the Service's families, or 0 if the Service does not specify it:
// the cluster may add a second one.
func metalLBFamilyCount(svc *corev1.Service) int {
	policy := ptr.Deref(svc.Spec.IPFamilyPolicy, "")
	switch {
	case len(svc.Spec.ClusterIPs) > 0:
		return len(svc.Spec.ClusterIPs)
	case len(svc.Spec.IPFamilies) == 2, policy == corev1.IPFamilyPolicyRequireDualStack:
		return 2
	case policy == corev1.IPFamilyPolicySingleStack, policy == "" && len(svc.Spec.IPFamilies) == 1:
		return 1
	}
	return 0
}
