package loadbalancer

import "quaymaster.dev/internal/finding"

// Rules documents every finding of this package.
func Docs() []finding.Doc {
	return []finding.Doc{
		{ID: idUnknownKey, Severity: finding.Error, Help: "A key under the prefix is not known. The nearest known key is named; typos are the usual cause."},
		{ID: idInvalidValue, Severity: finding.Error, Help: "The value is not of the key's type or outside its range. Nothing is trimmed, clamped or silently defaulted."},
		{ID: idPortForm, Severity: finding.Error, Help: "A key of the whole load balancer was written for one port."},
		{ID: idUnknownPort, Severity: finding.Error, Help: "The suffix of a key is neither the number nor the name of one of the Service's ports. Digits alone are a number."},
		{ID: idAmbiguousPort, Severity: finding.Error, Help: "A listener is set by its port's number and by its name. Even with equal values one of the two must go."},
		{ID: idProtocolMismatch, Severity: finding.Error, Help: "The listener's protocol does not fit the transport of a port that it governs."},
		{ID: idNotApplicable, Severity: finding.Error, Help: "The key has no effect on anything that it governs, so its author must have meant something else."},
		{ID: idFixedCheck, Severity: finding.Error, Help: "The health check is given by Kubernetes, and the key would change it: with externalTrafficPolicy Local it asks the node's health check port, for udp listeners kube-proxy."},
		{ID: idCertificate, Severity: finding.Error, Help: "An https listener has no certificate."},
		{ID: idCheckTimeout, Severity: finding.Error, Help: "A health check's timeout is not less than its interval. The timeout is named if it is set, else the interval."},
		{ID: idHostnameIPMode, Severity: finding.Error, Help: "A hostname is published and an ip-mode is set: a name has no mode."},
		{ID: idSchedulerAffinity, Severity: finding.Error, Help: "sessionAffinity ClientIP needs the scheduler source-ip, or none set."},
		{ID: idSCTP, Severity: finding.Error, Help: "A port uses SCTP, which the DLB does not carry."},
		{ID: idNodePort, Severity: finding.Error, Help: "A port has no node port and none will be allocated."},
		{ID: idSourceRange, Severity: finding.Error, Help: "A range of sources cannot be read. The load balancer stays as it is rather than letting in more than was meant."},
		{ID: idImmutable, Severity: finding.Error, Help: "An immutable key changed."},
		{ID: idAdoptIDInUse, Severity: finding.Error, Help: "load-balancer-id changed while the Service has an address."},
		{ID: idOtherClass, Severity: finding.Warning, Help: "A key of the DLB has no effect, because the Service is of another loadBalancerClass."},
		{ID: idSourceFamily, Severity: finding.Warning, Help: "A range of sources is of an address family that the Service does not have."},
		{ID: idAddress, Severity: finding.Warning, Help: "spec.loadBalancerIP is set, which the DLB ignores."},
		{ID: idIPModeVIP, Severity: finding.Warning, Help: "ip-mode is vip although a listener is http or https or uses the PROXY protocol: clients inside the cluster bypass it."},
	}
}
