package loadbalancer

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// check reports what is wrong with the settings together and with the Service's spec.
func (s *settings) check() {
	for _, one := range s.all {
		s.checkApplies(one)
		s.checkScheduler(one)
	}
	for i := range s.listeners {
		s.checkSpecPort(s.listeners[i])
		s.checkCertificate(i)
		s.checkTimeout(i)
	}
	s.checkHostname()
	s.checkIPMode()
}

// checkApplies refuses a setting that has an effect nowhere, which its author cannot have meant.
func (s *settings) checkApplies(one *setting) {
	switch {
	case one.Name == keyProtocol:
		s.checkTransport(one)
		return
	case one.Applies == "" || !one.valid || one.value.String() == "none":
		// A malformed value is to be corrected first.
		return
	case one.Applies == appliesPrivate:
		if network, _, ok := s.serviceValue(keyNetworkType); ok && !s.doubtful[keyNetworkType] && network.String() != "private" {
			s.report(notApplicable(one, "must not be set unless the load balancer is private", keyNetworkType+" to private"))
		}
		return
	case len(one.governs) == 0 || one.undecided:
		// Nothing to judge: the ports have forms of their own, or what was meant is not known.
		return
	}
	fixed := true
	for _, i := range one.governs {
		if s.applies(one.Descriptor, i) {
			return
		}
		fixed = fixed && s.listeners[i].fixedCheck()
	}
	switch {
	case one.Applies == appliesHTTPS:
		s.report(notApplicable(one, "must not be set without an https listener that it governs", keyProtocol+" to https"))
	case one.Applies == appliesTCP:
		s.report(notApplicable(one, "must be none for listeners that are not tcp", keyProtocol+" to tcp"))
	case fixed:
		s.report(finding.Finding{
			ID: idFixedCheck, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
			Message: "must not be set where Kubernetes gives the health check: with externalTrafficPolicy Local and for udp listeners it is http /healthz",
			Remedy:  "remove the key; interval, timeout and thresholds may stay",
		})
	default:
		s.report(notApplicable(one, "must not be set without an http or https health check that it governs", keyCheckProtocol+" to http or https"))
	}
}

func notApplicable(one *setting, message, change string) finding.Finding {
	return finding.Finding{
		ID: idNotApplicable, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
		Message: message, Remedy: "set " + Prefix + change + ", or remove the key",
	}
}

// applies tells whether the key may have an effect on the listener; true where that cannot be known, because another
// setting is malformed, which is reported anyway.
func (s *settings) applies(d *annotation.Descriptor, listener int) bool {
	l := s.listeners[listener]
	if l.sctp {
		return true
	}
	protocol, ok := s.protocol(listener)
	switch d.Applies {
	case appliesHTTPS:
		return !ok || protocol == "https"
	case appliesTCP:
		return !ok || protocol == "tcp"
	case appliesCheck:
		return !l.fixedCheck()
	case appliesHTTPCheck:
		if l.fixedCheck() {
			return false
		}
		check, ok := s.value(keyCheckProtocol, listener)
		return !ok || check.String() != "tcp"
	}
	return true
}

func (s *settings) checkTransport(one *setting) {
	if !one.valid {
		return
	}
	for _, i := range one.governs {
		l := s.listeners[i]
		if l.sctp || l.fits(one.value.String()) {
			continue
		}
		f := finding.Finding{
			ID: idProtocolMismatch, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
			Message: "must be udp for a UDP port", Remedy: "correct the value, or remove the key",
			Listeners: []string{l.key()},
		}
		if l.transport == "tcp" {
			f.Message = "must be tcp, http or https for a TCP port"
		}
		if len(one.governs) > 1 {
			f.Remedy = "set it for single ports by their name, as in " + one.Key + ".<port name>"
		}
		s.report(f)
	}
}

func (s *settings) checkScheduler(one *setting) {
	if one.Name != keyScheduler || !one.valid || len(one.governs) == 0 || one.value.String() == "source-ip" ||
		s.svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return
	}
	s.report(finding.Finding{
		ID: idSchedulerAffinity, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
		Message: "must be source-ip with sessionAffinity ClientIP",
		Remedy:  "write source-ip or remove the key, or set spec.sessionAffinity to None",
	})
}

func (s *settings) checkSpecPort(l port) {
	path := field.NewPath("spec", "ports").Index(l.index)
	if l.sctp {
		s.report(finding.Finding{
			ID: idSCTP, Type: field.ErrorTypeNotSupported, Field: path.Child("protocol").String(), Value: string(corev1.ProtocolSCTP),
			Message: "must be TCP or UDP: the DLB does not carry SCTP", Remedy: "move the port to a Service of another type",
			Listeners: []string{l.key()},
		})
	}
	if allocate := s.svc.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate && l.nodePort == 0 {
		s.report(finding.Finding{
			ID: idNodePort, Type: field.ErrorTypeRequired, Field: path.Child("nodePort").String(),
			Message: "must be set when allocateLoadBalancerNodePorts is false: the DLB reaches the Service by its node ports",
			Remedy:  "set the nodePort, or let it be allocated", Listeners: []string{l.key()},
		})
	}
}

func (s *settings) checkCertificate(i int) {
	l := s.listeners[i]
	if protocol, ok := s.protocol(i); !ok || protocol != "https" || l.sctp {
		return
	}
	if certificate, ok := s.value(keyCertificate, i); !ok || certificate.IsValid() {
		return
	}
	d := known().byName[keyCertificate]
	s.report(finding.Finding{
		ID: idCertificate, Type: field.ErrorTypeRequired, Field: annotations.Key(d.Key).String(),
		Message:   "must be set for every https listener",
		Remedy:    "add " + d.Key + ", or " + d.Key + ".<port> for one port alone",
		Listeners: []string{l.key()},
	})
}

// checkTimeout blames the timeout if the user wrote one, else the interval: the default of the other is not at fault.
func (s *settings) checkTimeout(i int) {
	timeout, ok1 := s.value(keyCheckTimeout, i)
	interval, ok2 := s.value(keyCheckInterval, i)
	if s.listeners[i].sctp || !ok1 || !ok2 || timeout.Interface().(time.Duration) < interval.Interface().(time.Duration) {
		return
	}
	one, other := s.governor(keyCheckTimeout, i), s.governor(keyCheckInterval, i)
	f := finding.Finding{ID: idCheckTimeout, Type: field.ErrorTypeInvalid, Listeners: []string{s.listeners[i].key()}}
	if one != nil {
		f.Message = "must be less than the health check's interval, " + written(other, keyCheckInterval)
		f.Remedy = "shorten the timeout or lengthen the interval"
	} else {
		one = other
		f.Message = "must be more than the health check's timeout, " + written(nil, keyCheckTimeout)
		f.Remedy = "lengthen the interval, or set " + Prefix + keyCheckTimeout
	}
	f.Field, f.Value = one.field(), one.raw
	s.report(f)
}

func written(one *setting, name string) string {
	if one == nil {
		return known().byName[name].Default + " by default"
	}
	return one.raw
}

func (s *settings) checkHostname() {
	_, hostname, _ := s.serviceValue(keyHostname)
	_, mode, _ := s.serviceValue(keyIPMode)
	if hostname == nil || mode == nil {
		return
	}
	s.report(finding.Finding{
		ID: idHostnameIPMode, Type: field.ErrorTypeInvalid, Field: hostname.field(), Value: hostname.raw,
		Message: "must not be set together with " + mode.key + ": a published name has no mode",
		Remedy:  "remove one of the two",
	})
}

func (s *settings) checkIPMode() {
	mode, explicit, ok := s.serviceValue(keyIPMode)
	if explicit == nil || !ok || mode.String() != "vip" {
		return
	}
	if by := s.terminating(); len(by) > 0 {
		s.report(finding.Finding{
			ID: idIPModeVIP, Severity: finding.Warning, Field: explicit.field(), Value: explicit.raw,
			Message: "vip lets nodes bypass the listeners " + strings.Join(by, ", ") + ", so clients in the cluster miss http(s) and the PROXY protocol",
			Remedy:  "write proxy or remove the key",
		})
	}
}

// terminating are the listeners whose traffic must pass the load balancer itself.
func (s *settings) terminating() []string {
	var keys []string
	for i, l := range s.listeners {
		protocol, ok1 := s.protocol(i)
		proxy, ok2 := s.value(keyProxyProtocol, i)
		if l.sctp || !ok1 {
			continue
		}
		if protocol == "http" || protocol == "https" || ok2 && proxy.String() != "none" && protocol == "tcp" {
			keys = append(keys, l.key())
		}
	}
	return keys
}
