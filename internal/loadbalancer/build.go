package loadbalancer

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// kube-proxy answers here whether its node takes traffic (externalTrafficPolicy Cluster).
const (
	kubeProxyHealthzPort = 10256
	healthzPath          = "/healthz"
)

// Build goes from a Service to its load balancer and to everything that is wrong with it or worth a warning. Without a
// Desired the Service is not ours, or a finding is an error.
func Build(svc *corev1.Service, o Options) (*Desired, []finding.Finding) {
	if !Owned(svc, o) {
		return nil, finding.Of(Catalog, unowned(svc, o))
	}
	s := evaluate(svc)
	findings := finding.Of(Catalog, finding.Merge(s.findings))
	if len(finding.Errors(findings)) > 0 {
		return nil, findings
	}
	return s.desired(), findings
}

// evaluate reads and checks a Service of ours. Its findings name one listener each, for the ratchet to judge.
func evaluate(svc *corev1.Service) *settings {
	s := read(svc)
	s.check()
	s.checkAddress()
	s.readSources()
	return s
}

// desired puts the values together; there is no error among the findings.
func (s *settings) desired() *Desired {
	d := &Desired{Families: families(s.svc), AllowedSources: s.sources}
	for _, key := range known().service {
		value, _, _ := s.serviceValue(key.Name)
		set(key, d, value)
	}
	if d.IPMode == "" {
		d.IPMode = s.defaultIPMode()
	}
	for i := range s.listeners {
		d.Listeners = append(d.Listeners, s.listener(i))
	}
	return d
}

func (s *settings) defaultIPMode() string {
	if len(s.terminating()) > 0 {
		return "proxy"
	}
	return "vip"
}

func (s *settings) listener(i int) Listener {
	p := s.listeners[i]
	l := Listener{Transport: p.transport, Port: p.port, NodePort: p.nodePort, AffinityTimeout: affinityTimeout(s.svc)}
	for _, key := range known().listener {
		value, _ := s.value(key.Name, i)
		set(key, &l, value)
	}
	l.Protocol, _ = s.protocol(i)
	// What a plain key says of listeners to which it does not apply is skipped.
	if l.Protocol != "https" {
		l.CertificateID = ""
	}
	if l.Protocol != "tcp" {
		l.ProxyProtocol = "none"
	}
	switch check := &l.HealthCheck; {
	case p.fixedCheck():
		check.Protocol, check.Path, check.ExpectedCodes = "http", healthzPath, []string{"200"}
		check.Port = kubeProxyHealthzPort
		if p.localTraffic {
			check.Port = s.svc.Spec.HealthCheckNodePort
		}
	case check.Protocol == "tcp":
		check.Path, check.ExpectedCodes = "", nil
	}
	return l
}

// set leaves the field at zero where the key has no value.
func set(d *annotation.Descriptor, target any, v annotation.Value) {
	if v.IsValid() {
		d.Set(target, v)
	}
}

func affinityTimeout(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}
