package tree

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/loadbalancer"
)

// Observed returns a load balancer of the cloud in the terms of a Service; it reverses Wanted. Fields that the cloud does
// not keep, or that it chose itself because the Service leaves them open, are as wanted.
func Observed(want *loadbalancer.Desired, lb *cloudv1.LoadBalancer) *loadbalancer.Desired {
	is := *want
	is.NetworkType = NetworkType(lb)
	is.BandwidthMbps, is.DeletionProtection = lb.BandwidthMbps, lb.DeletionProtection
	if want.Flavor != "" {
		is.Flavor = lb.Flavor
	}
	if len(want.Zones) > 0 && !sameSet(want.Zones, lb.Zones) {
		is.Zones = lb.Zones
	}
	if want.SubnetID != "" {
		is.SubnetID = ""
		if lb.Network != nil && len(lb.Network.SubnetIDs) == 1 {
			is.SubnetID = lb.Network.SubnetIDs[0]
		}
	}
	for key, value := range want.Tags {
		if lb.Tags[key] != value {
			is.Tags = nil
		}
	}
	observeAddresses(&is, lb)
	is.Listeners = nil
	for i := range lb.Listeners {
		l := &lb.Listeners[i]
		is.AllowedSources = allowedSources(want, l)
		at := slices.IndexFunc(lb.Pools, func(p cloudv1.Pool) bool { return p.Key == l.PoolKey })
		if at < 0 {
			continue
		}
		is.DrainTimeout = time.Duration(lb.Pools[at].DrainTimeoutS) * time.Second
		is.Listeners = append(is.Listeners, observedListener(l, &lb.Pools[at]))
	}
	return &is
}

// observeAddresses sets the families and the mode of the load balancer's addresses. The cloud may list them in any
// order.
func observeAddresses(is *loadbalancer.Desired, lb *cloudv1.LoadBalancer) {
	var families []string
	for _, vip := range lb.VIPs {
		families = append(families, vip.Family)
		if vip.Mode != "" {
			is.IPMode = vip.Mode
		}
	}
	if !sameSet(is.Families, families) {
		is.Families = families
	}
}

// allowedSources returns the source ranges of a listener, in the order of those wanted if they are the same.
func allowedSources(want *loadbalancer.Desired, l *cloudv1.Listener) []netip.Prefix {
	if slices.Equal(sources(want), slices.Sorted(slices.Values(l.AllowedCIDRs))) {
		return want.AllowedSources
	}
	var list []netip.Prefix
	for _, cidr := range l.AllowedCIDRs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			list = append(list, prefix)
		}
	}
	return list
}

// NetworkType returns the network type of a load balancer, as annotations name it.
func NetworkType(lb *cloudv1.LoadBalancer) string {
	if lb.Scheme == cloudv1.SchemeInternal {
		return "private"
	}
	return "public"
}

func observedListener(l *cloudv1.Listener, p *cloudv1.Pool) loadbalancer.Listener {
	transport, _, _ := strings.Cut(l.Key, "/")
	is := loadbalancer.Listener{
		Transport: transport, Port: l.Port, NodePort: p.TargetPort,
		Protocol: l.Protocol, MaxQPS: l.MaxQPS, MaxConnections: l.MaxConnections,
		IdleTimeout: time.Duration(l.IdleTimeoutMS) * time.Millisecond, ProxyProtocol: l.ProxyProtocol,
		Scheduler: strings.ReplaceAll(p.Algorithm, "_", "-"),
	}
	if l.TLS != nil && len(l.TLS.CertificateIDs) == 1 {
		is.CertificateID = l.TLS.CertificateIDs[0]
	}
	if p.SessionAffinity != nil {
		is.AffinityTimeout = time.Duration(p.SessionAffinity.TimeoutS) * time.Second
	}
	if m := p.HealthMonitor; m != nil {
		is.HealthCheck = loadbalancer.HealthCheck{
			Port: m.Port, Protocol: m.Type, Path: m.Path,
			Interval: time.Duration(m.IntervalMS) * time.Millisecond, Timeout: time.Duration(m.TimeoutMS) * time.Millisecond,
			Healthy: m.Rise, Unhealthy: m.Fall,
		}
		if m.ExpectedCodes != "" {
			is.HealthCheck.ExpectedCodes = strings.Split(m.ExpectedCodes, ",")
		}
	}
	return is
}
