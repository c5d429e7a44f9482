package review

import (
	"fmt"

	"quaymaster.dev/internal/finding"
)

// The ids of the findings about what Quaymaster can do rather than about objects. Docs, metrics and users refer to them:
// they must not change.
const (
	// IDDefaultsUnavailable: a Service is admitted without its defaults.
	IDDefaultsUnavailable = "defaults-unavailable"
	// IDPoliciesUnavailable: a Service is validated without policies.
	IDPoliciesUnavailable = "policies-unavailable"
	// IDPolicyOthersUnavailable: a policy is validated without other policies.
	IDPolicyOthersUnavailable = "policy-others-unavailable"
	// IDTooManyAnnotations, IDTooManyPorts, IDTooManySourceRanges and IDTooManyExternalIPs: a load balancer is too large
	// to be validated.
	IDTooManyAnnotations  = "too-many-annotations"
	IDTooManyPorts        = "too-many-ports"
	IDTooManySourceRanges = "too-many-source-ranges"
	IDTooManyExternalIPs  = "too-many-external-ips"
	// IDTooLarge: an object of any kind is too large to be read. The API server stores none of that size.
	IDTooLarge = "too-large"
	// IDProbe: a load balancer has the probe annotation, which is always refused.
	IDProbe = "probe"
)

// Docs documents the findings about Quaymaster itself.
func Docs() []finding.Doc {
	return []finding.Doc{
		finding.NewDoc(IDDefaultsUnavailable, finding.Warning,
			"A Service was admitted without its defaults, because policies could not be read. Quaymaster's "+
				"cloud-controller-manager, where it runs, applies those of the DLB; nothing applies the others."),
		finding.NewDoc(IDPoliciesUnavailable, finding.Warning,
			"A Service was admitted without being validated by policies, because they could not be read. "+
				"Quaymaster's cloud-controller-manager, where it runs, validates Services of the DLB again."),
		finding.NewDoc(IDPolicyOthersUnavailable, finding.Warning,
			"A policy was admitted without being compared with the others of its namespaces, because these could "+
				"not be read. Defaults that break the rule of another policy are not written."),
		finding.NewDoc(IDTooManyAnnotations, finding.Error, fmt.Sprintf(
			"A load balancer has more than %d annotations under the prefixes of the catalogs. Validating them would "+
				"delay other requests, so they are not validated, and no other problem of the Service is reported.",
			maxAnnotations)),
		tooMany(IDTooManyPorts, "ports"), tooMany(IDTooManySourceRanges, "source ranges"),
		tooMany(IDTooManyExternalIPs, "external IPs"),
		finding.NewDoc(IDTooLarge, finding.Error,
			"An object is larger than any that the API server stores, for example because its annotations have more than "+
				"256 KiB. The webhooks refuse it without reading the rest of it."),
		finding.NewDoc(IDProbe, finding.Error,
			"A load balancer has the annotation quaymaster.dev/probe, which is always refused: quayctl doctor uses "+
				"it in a dry run to test whether admission validates Services."),
	}
}

func tooMany(id, what string) finding.Doc {
	return finding.NewDoc(id, finding.Error, fmt.Sprintf(
		"A load balancer has more than %d %s. Validating them would delay other requests, so no other problem of the "+
			"Service is reported.", MaxListed, what))
}
