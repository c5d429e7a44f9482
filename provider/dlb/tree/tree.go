// Package tree translates between what a Service asks for and the tree of a load balancer in the cloud, and compares
// trees. It does no I/O.
package tree

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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

// Wanted returns the load balancer that a Service asks for, apart from its name. owner are the tags that make it the
// Service's.
func Wanted(
	d *loadbalancer.Desired, network Network, nodeGroupID string, owner map[string]string,
) cloudv1.LoadBalancerSpec {
	spec := cloudv1.LoadBalancerSpec{Tags: map[string]string{}, LoadBalancerFields: fields(d, network, nodeGroupID)}
	maps.Copy(spec.Tags, d.Tags)
	maps.Copy(spec.Tags, owner)
	if d.DeletionProtection {
		spec.Tags[ownership.Protected] = protectedByService
	}
	return spec
}

// fields returns the desired load balancer in the cloud's terms. Each field that it sets is read back by Observed.
func fields(d *loadbalancer.Desired, network Network, nodeGroupID string) cloudv1.LoadBalancerFields {
	tree := cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Flavor: d.Flavor, Zones: d.Zones,
		DeletionProtection: d.DeletionProtection, BandwidthMbps: d.BandwidthMbps,
	}
	if d.NetworkType == "private" {
		tree.Scheme = cloudv1.SchemeInternal
	}
	subnets := network.SubnetIDs
	if d.SubnetID != "" {
		subnets = []string{d.SubnetID}
	}
	if network.VPCID != "" || len(subnets) > 0 {
		tree.Network = &cloudv1.Network{VPCID: network.VPCID, SubnetIDs: subnets}
	}
	for _, family := range d.Families {
		tree.VIPs = append(tree.VIPs, cloudv1.VIP{Family: family, Mode: d.IPMode})
	}
	allowed := sources(d)
	for _, l := range d.Listeners {
		tree.Listeners = append(tree.Listeners, listener(l, allowed))
		for _, family := range d.Families {
			tree.Pools = append(tree.Pools, pool(l, family, nodeGroupID, d.DrainTimeout))
		}
	}
	return tree
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

// Applied has the optional settings that a Service has made. Others stay as they are. It is stored in Services: fields must
// keep their names.
type Applied struct {
	Flavor string   `json:"flavor,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Tags has the keys.
	Tags []string `json:"tags,omitempty"`
}

// AppliedOf returns the optional settings that a Service makes.
func AppliedOf(d *loadbalancer.Desired) Applied {
	return Applied{Flavor: d.Flavor, Zones: d.Zones, Tags: slices.Sorted(maps.Keys(d.Tags))}
}

// Settle copies to spec what the cloud has decided for the load balancer, what must not change, and what others have
// set: its network, its addresses, flavor, zones and deletion protection if the Service does not set them, and tags.
// Otherwise, a cloud that stores its defaults would be written to again and again, and others would lose their tags.
//
// What the Service has set itself and no longer asks for is reset, unless others have changed it since.
func Settle(
	spec cloudv1.LoadBalancerSpec, d *loadbalancer.Desired, set Applied, actual *cloudv1.LoadBalancer,
) cloudv1.LoadBalancerSpec {
	spec.VIPs, spec.Tags = slices.Clone(spec.VIPs), maps.Clone(spec.Tags)
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
	foreign := ForeignProtection(actual)
	if spec.DeletionProtection = d.DeletionProtection || foreign; foreign || !d.DeletionProtection {
		delete(spec.Tags, ownership.Protected)
	}
	return spec
}

// ForeignProtection reports whether others than the Service have switched on the deletion protection.
func ForeignProtection(lb *cloudv1.LoadBalancer) bool {
	_, ours := lb.Tags[ownership.Protected]
	return lb.DeletionProtection && !ours
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Of returns a load balancer as it is, without what the cloud only observes.
func Of(lb *cloudv1.LoadBalancer) cloudv1.LoadBalancerSpec {
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	spec.Pools = slices.Clone(lb.Pools)
	for i := range spec.Pools {
		spec.Pools[i].Members = slices.Clone(spec.Pools[i].Members)
		for j := range spec.Pools[i].Members {
			spec.Pools[i].Members[j].OperatingState = ""
		}
	}
	return spec
}

// Same reports whether the load balancer matches spec. The order in which the cloud lists its parts does not matter.
func Same(spec cloudv1.LoadBalancerSpec, actual *cloudv1.LoadBalancer) bool {
	return equality.Semantic.DeepEqual(ordered(spec), ordered(Of(actual)))
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
