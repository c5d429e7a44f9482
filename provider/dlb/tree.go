package dlb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// Network places new load balancers in the cloud. Existing ones keep their network.
type Network struct {
	// VPCID is the network; if empty, the cloud chooses one.
	VPCID string
	// SubnetIDs is the default for Services that do not name a subnet.
	SubnetIDs []string
}

// checkAllocated checks that the API server has allocated the ports that backends listen on, unless it will not. Load
// balancers that forward packets unchanged need none; validation refuses the others.
func checkAllocated(svc *corev1.Service) error {
	for _, p := range svc.Spec.Ports {
		if p.NodePort == 0 && !loadbalancer.NoNodePort(svc, p) {
			return &postponed{cause: fmt.Errorf("port %d has no node port yet", p.Port)}
		}
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && svc.Spec.HealthCheckNodePort == 0 {
		return &postponed{cause: errors.New("the service has no health check node port yet")}
	}
	return nil
}

// tree returns the desired load balancer in the cloud's terms. Each field that it sets is read back by observed.
func tree(d *loadbalancer.Desired, network Network, nodeGroupID string) cloudv1.LoadBalancerFields {
	fields := cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Flavor: d.Flavor, Zones: d.Zones,
		DeletionProtection: d.DeletionProtection, BandwidthMbps: d.BandwidthMbps,
	}
	if d.NetworkType == "private" {
		fields.Scheme = cloudv1.SchemeInternal
	}
	subnets := network.SubnetIDs
	if d.SubnetID != "" {
		subnets = []string{d.SubnetID}
	}
	if network.VPCID != "" || len(subnets) > 0 {
		fields.Network = &cloudv1.Network{VPCID: network.VPCID, SubnetIDs: subnets}
	}
	for _, family := range d.Families {
		fields.VIPs = append(fields.VIPs, cloudv1.VIP{Family: family, Mode: d.IPMode})
	}
	allowed := sources(d)
	for _, l := range d.Listeners {
		fields.Listeners = append(fields.Listeners, listener(l, allowed))
		for _, family := range d.Families {
			fields.Pools = append(fields.Pools, pool(l, family, nodeGroupID, d.DrainTimeout))
		}
	}
	return fields
}

// sources returns the allowed source ranges, sorted and without duplicates.
func sources(d *loadbalancer.Desired) []string {
	var list []string
	for _, prefix := range d.AllowedSources {
		list = append(list, prefix.String())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func listener(l loadbalancer.Listener, allowed []string) cloudv1.Listener {
	listener := cloudv1.Listener{
		Key: l.Key(), Protocol: l.Protocol, Port: l.Port, PoolKey: l.Key(),
		MaxQPS: l.MaxQPS, MaxConnections: l.MaxConnections, IdleTimeoutMS: l.IdleTimeout.Milliseconds(),
		ProxyProtocol: l.ProxyProtocol, AllowedCIDRs: allowed,
	}
	if l.CertificateID != "" {
		listener.TLS = &cloudv1.TLS{CertificateIDs: []string{l.CertificateID}}
	}
	return listener
}

func pool(l loadbalancer.Listener, family, nodeGroupID string, drain time.Duration) cloudv1.Pool {
	pool := cloudv1.Pool{
		Key: l.Key(), Family: family, Protocol: l.Protocol, Algorithm: strings.ReplaceAll(l.Scheduler, "-", "_"),
		TargetPort: l.NodePort, NodeGroupID: nodeGroupID, DrainTimeoutS: int64(drain.Seconds()),
		HealthMonitor: &cloudv1.HealthMonitor{
			Type: l.HealthCheck.Protocol, Port: l.HealthCheck.Port, Path: l.HealthCheck.Path,
			ExpectedCodes: strings.Join(l.HealthCheck.ExpectedCodes, ","),
			IntervalMS:    l.HealthCheck.Interval.Milliseconds(), TimeoutMS: l.HealthCheck.Timeout.Milliseconds(),
			Rise: l.HealthCheck.Healthy, Fall: l.HealthCheck.Unhealthy,
		},
	}
	if l.Protocol == cloudv1.ProtocolHTTPS {
		// TLS ends at the listener.
		pool.Protocol = cloudv1.ProtocolHTTP
	}
	if l.AffinityTimeout > 0 {
		pool.SessionAffinity = &cloudv1.SessionAffinity{
			Type: cloudv1.AffinitySourceIP, TimeoutS: int64(l.AffinityTimeout.Seconds()),
		}
	}
	return pool
}

// protectedByService is the value of the tag ownership.Protected.
const protectedByService = "service"

// settle copies to spec what the cloud has decided for the load balancer, what must not change, and what others have
// set: its network, its addresses, flavor, zones and deletion protection if the Service does not set them, and tags.
// Otherwise, a cloud that stores its defaults would be written to again and again, and others would lose their tags.
//
// What the Service has set itself, by its record, and no longer asks for is reset, unless others have changed it since.
func settle(
	spec cloudv1.LoadBalancerSpec, d *loadbalancer.Desired, rec record, actual *cloudv1.LoadBalancer,
) cloudv1.LoadBalancerSpec {
	spec.VIPs, spec.Tags = slices.Clone(spec.VIPs), maps.Clone(spec.Tags)
	set := rec.Applied
	if d.SubnetID == "" {
		spec.Network = actual.Network
	}
	if d.Flavor == "" && (set.Flavor == "" || set.Flavor != actual.Flavor) {
		spec.Flavor = actual.Flavor
	}
	if len(d.Zones) == 0 && (len(set.Zones) == 0 || !sameSet(set.Zones, actual.Zones)) {
		spec.Zones = actual.Zones
	}
	for i, vip := range spec.VIPs {
		for _, given := range actual.VIPs {
			if given.Family == vip.Family {
				spec.VIPs[i].ID, spec.VIPs[i].Address = given.ID, given.Address
			}
		}
	}
	for key, value := range actual.Tags {
		// The tags of spec take precedence, above all those of ownership, which are the precondition of the write.
		if _, wanted := spec.Tags[key]; !wanted && !slices.Contains(set.Tags, key) {
			spec.Tags[key] = value
		}
	}
	settleProtection(&spec, d, actual)
	return spec
}

// settleProtection keeps deletion protection that others have switched on.
func settleProtection(spec *cloudv1.LoadBalancerSpec, d *loadbalancer.Desired, actual *cloudv1.LoadBalancer) {
	delete(spec.Tags, ownership.Protected)
	switch {
	case foreignProtection(actual):
		spec.DeletionProtection = true
	case d.DeletionProtection:
		spec.Tags[ownership.Protected] = protectedByService
	}
}

// foreignProtection reports whether others than the Service have switched on the deletion protection.
func foreignProtection(lb *cloudv1.LoadBalancer) bool {
	_, ours := lb.Tags[ownership.Protected]
	return lb.DeletionProtection && !ours
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// same reports whether the load balancer matches spec. The order in which the cloud lists its parts does not matter.
func same(spec cloudv1.LoadBalancerSpec, actual *cloudv1.LoadBalancer) bool {
	is := cloudv1.LoadBalancerSpec{Name: actual.Name, Tags: actual.Tags, LoadBalancerFields: actual.LoadBalancerFields}
	return equality.Semantic.DeepEqual(ordered(spec), ordered(is))
}

func ordered(spec cloudv1.LoadBalancerSpec) cloudv1.LoadBalancerSpec {
	spec.Zones = slices.Sorted(slices.Values(spec.Zones))
	spec.VIPs = slices.SortedFunc(
		slices.Values(spec.VIPs), func(a, b cloudv1.VIP) int { return cmp.Compare(a.Family, b.Family) },
	)
	spec.Listeners = slices.SortedFunc(slices.Values(spec.Listeners), func(a, b cloudv1.Listener) int {
		return cmp.Compare(a.Key, b.Key)
	})
	spec.Pools = slices.SortedFunc(slices.Values(spec.Pools), func(a, b cloudv1.Pool) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Family, b.Family))
	})
	return spec
}
