package review

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
	// IDTooManyTemplates: an object has the annotations of so many Services that some are not validated.
	IDTooManyTemplates = "too-many-templates"
	// IDTooLarge: an object of any kind is too large to be read. The API server stores none of that size.
	IDTooLarge = "too-large"
	// IDUnknownKey: a Service has a key with the prefix quaymaster.dev/ that nothing reads.
	IDUnknownKey = "unknown-quaymaster-key"
	// IDMisspelledKey: a key is probably a typo of one of Quaymaster's own controller, but lacks its prefix.
	IDMisspelledKey = "misspelled-key"
	// IDOtherType: a Service that is no load balancer has keys of one.
	IDOtherType = "other-service-type"
	// IDOtherKind: an object has keys that have an effect on objects of a different kind only.
	IDOtherKind = "other-kind"
	// IDProbe: a load balancer has the probe annotation, which is always refused.
	IDProbe = "probe"
)
