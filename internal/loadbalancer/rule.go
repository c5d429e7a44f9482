package loadbalancer

import "quaymaster.dev/internal/rules"

// Rule documents what a finding's id means.
type Rule struct {
	ID       string
	Severity rules.Severity
	Help     string
}

// Rules documents every finding of this package.
func Rules() []Rule {
	return []Rule{
		{idUnknownKey, rules.Error, "A key under the prefix is not known. The nearest known key is named; typos are the usual cause."},
		{idInvalidValue, rules.Error, "The value is not of the key's type or outside its range. Nothing is trimmed, clamped or silently defaulted."},
		{idPortForm, rules.Error, "A key of the whole load balancer was written for one port."},
		{idUnknownPort, rules.Error, "The suffix of a key is neither the number nor the name of one of the Service's ports. Digits alone are a number."},
		{idAmbiguousPort, rules.Error, "A listener is set by its port's number and by its name. Even with equal values one of the two must go."},
		{idProtocolMismatch, rules.Error, "The listener's protocol does not fit the transport of a port that it governs."},
		{idNotApplicable, rules.Error, "The key has no effect on anything that it governs, so its author must have meant something else."},
		{idFixedCheck, rules.Error, "The health check is given by Kubernetes, and the key would change it: with externalTrafficPolicy Local it asks the node's health check port, for udp listeners kube-proxy."},
		{idCertificate, rules.Error, "An https listener has no certificate."},
		{idCheckTimeout, rules.Error, "A health check's timeout is not less than its interval. The timeout is named if it is set, else the interval."},
		{idHostnameIPMode, rules.Error, "A hostname is published and an ip-mode is set: a name has no mode."},
		{idSchedulerAffinity, rules.Error, "sessionAffinity ClientIP needs the scheduler source-ip, or none set."},
		{idSCTP, rules.Error, "A port uses SCTP, which the DLB does not carry."},
		{idNodePort, rules.Error, "A port has no node port and none will be allocated."},
		{idSourceRange, rules.Error, "A range of sources cannot be read. The load balancer stays as it is rather than letting in more than was meant."},
		{idImmutable, rules.Error, "An immutable key changed."},
		{idAdoptIDInUse, rules.Error, "load-balancer-id changed while the Service has an address."},
		{idOtherClass, rules.Warning, "A key of the DLB has no effect, because the Service is of another loadBalancerClass."},
		{idSourceFamily, rules.Warning, "A range of sources is of an address family that the Service does not have."},
		{idAddress, rules.Warning, "spec.loadBalancerIP is set, which the DLB ignores."},
		{idIPModeVIP, rules.Warning, "ip-mode is vip although a listener is http or https or uses the PROXY protocol: clients inside the cluster bypass it."},
	}
}
