package v1

import (
	"encoding/json"
	"net/netip"
	"slices"
)

// ProvisioningState is the progress of the cloud towards the desired state of a load balancer.
type ProvisioningState string

// The provisioning states of a load balancer.
const (
	ProvisioningPendingCreate ProvisioningState = "pending_create"
	ProvisioningActive        ProvisioningState = "active"
	ProvisioningPendingUpdate ProvisioningState = "pending_update"
	ProvisioningPendingDelete ProvisioningState = "pending_delete"
	ProvisioningError         ProvisioningState = "error"
)

// The operating states of load balancers and members.
const (
	OperatingOnline    = "online"
	OperatingDegraded  = "degraded"
	OperatingOffline   = "offline"
	OperatingDraining  = "draining"
	OperatingNoMembers = "no_members"
	OperatingUnknown   = "unknown"
)

// The schemes of load balancers.
const (
	SchemePublic   = "public"
	SchemeInternal = "internal"
)

// The families of addresses.
const (
	FamilyIPv4 = "ipv4"
	FamilyIPv6 = "ipv6"
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) string {
	if a.Is4() {
		return FamilyIPv4
	}
	return FamilyIPv6
}

// IsHost reports whether an address can be that of one host: a member with any other would receive nothing, or be the edge
// itself or more than one machine.
func IsHost(a netip.Addr) bool {
	none := func(network netip.Prefix) bool { return network.Contains(a) }
	return a.IsGlobalUnicast() && !a.Is4In6() && !slices.ContainsFunc(noHosts, none)
}

// noHosts are networks without hosts: "this network", what is reserved with the broadcast address, and IPv4-compatible
// addresses.
var noHosts = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
}

// The modes of VIPs.
const (
	VIPModeVIP   = "vip"
	VIPModeProxy = "proxy"
)

// The protocols of listeners, pools and health monitors.
const (
	ProtocolTCP   = "tcp"
	ProtocolUDP   = "udp"
	ProtocolHTTP  = "http"
	ProtocolHTTPS = "https"
	// ProtocolNone is the type of a health monitor that does not probe.
	ProtocolNone = "none"
)

// The versions of the PROXY protocol.
const (
	ProxyProtocolNone = "none"
	ProxyProtocolV1   = "v1"
	ProxyProtocolV2   = "v2"
)

// The algorithms of pools.
const (
	AlgorithmRoundRobin         = "round_robin"
	AlgorithmWeightedRoundRobin = "weighted_round_robin"
	AlgorithmLeastConnections   = "least_connections"
	AlgorithmSourceIP           = "source_ip"
)

// AffinitySourceIP is the type of session affinity that identifies clients by their address.
const AffinitySourceIP = "source_ip"

// LoadBalancer is a load balancer with its whole tree. The operating states of the load balancer and of its members are
// observations: they change without a new revision.
type LoadBalancer struct {
	Object
	LoadBalancerFields
	// The progress of the cloud towards the desired state.
	ProvisioningState ProvisioningState `json:"provisioning_state" enum:"pending_create,active,pending_update,pending_delete,error"`
	// What edges see of the members; degraded also if an edge has not applied the last change. Unknown without
	// edges. An observation: it changes without a new revision.
	OperatingState string `json:"operating_state" enum:"online,degraded,offline,no_members,unknown"`
	// Why provisioning_state is error or, if it is pending_delete, why the last job could not complete the deletion.
	Fault *Problem `json:"fault,omitempty"`

	// Unknown is the tree as a client read it, if it has members for which the client has no field, so that an update can
	// keep them. It is not part of the API.
	Unknown json.RawMessage `json:"-"`
	// Undecodable says why a client could not decode the load balancer, of which it knows no more than that it exists. It is
	// not part of the API.
	Undecodable string `json:"-"`
}

// Addresses returns the addresses that the cloud has given to the load balancer.
func (lb *LoadBalancer) Addresses() []string {
	var addresses []string
	for _, vip := range lb.VIPs {
		if vip.Address != "" {
			addresses = append(addresses, vip.Address)
		}
	}
	return addresses
}

// ServedFrom reports whether edges of a zone serve the load balancer. Those without a zone serve all.
func (lb *LoadBalancer) ServedFrom(zone string) bool {
	return zone == "" || len(lb.Zones) == 0 || slices.Contains(lb.Zones, zone)
}

// LoadBalancerSpec is the body of a request to create or replace a load balancer: the whole tree.
type LoadBalancerSpec struct {
	// Unique among load balancers.
	Name string `json:"name" minLength:"1" maxLength:"255"`
	// Tags of the load balancer; a replacement without them removes all.
	Tags map[string]string `json:"tags,omitempty"`
	LoadBalancerFields
}

// LoadBalancerPatch changes only the fields that it sets (RFC 7396).
type LoadBalancerPatch struct {
	// The new name; unique among load balancers.
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	// Tags to set; null removes a tag.
	Tags map[string]*string `json:"tags,omitempty"`
	// Whether to reject deletions.
	DeletionProtection *bool `json:"deletion_protection,omitempty"`
}

// Adoption is the body of a request to adopt a load balancer: the tags to add.
type Adoption struct {
	// The tags to add.
	Tags map[string]string `json:"tags" minProperties:"1"`
}

// LoadBalancerFields holds the settings that LoadBalancer and LoadBalancerSpec share.
type LoadBalancerFields struct {
	// Whether the addresses are public or of the network. Immutable.
	Scheme string `json:"scheme" enum:"public,internal"`
	// The size of the load balancer. Defaults to the cloud's default flavor.
	Flavor string `json:"flavor,omitempty" maxLength:"63"`
	// Where the load balancer is placed. Immutable.
	Network *Network `json:"network,omitempty"`
	// The zones of the load balancer. Defaults to all zones.
	Zones []string `json:"zones,omitempty"`
	// The addresses, at most one per family. Defaults to one ipv4 address.
	VIPs []VIP `json:"vips,omitempty" maxItems:"2"`
	// Deletions are rejected until a patch or an update ends the protection.
	DeletionProtection bool `json:"deletion_protection,omitempty"`
	// The bandwidth limit in Mbit/s. 0 means unlimited.
	BandwidthMbps int `json:"bandwidth_mbps,omitempty" minimum:"0" maximum:"100000"`
	// Required in writes; absent in lists without expand=tree.
	Listeners []Listener `json:"listeners,omitzero" maxItems:"256"`
	// Required in writes; absent in lists without expand=tree.
	Pools []Pool `json:"pools,omitzero" maxItems:"512"`
}

// Network places a load balancer.
type Network struct {
	// The network.
	VPCID string `json:"vpc_id,omitempty"`
	// The subnets of the network.
	SubnetIDs []string `json:"subnet_ids,omitempty"`
}

// VIP is an address of a load balancer. The cloud keeps id and address as long as the load balancer has a VIP of the
// family.
type VIP struct {
	// Assigned by the cloud.
	ID string `json:"id,omitempty" readOnly:"true"`
	// The family of the address.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// Assigned by the cloud, unless a new VIP asks for a free address of its pools. Those of existing VIPs stay.
	Address string `json:"address,omitempty"`
	// How cluster software must treat the address: as its own (vip), or as that of a proxy (proxy).
	Mode string `json:"mode" enum:"vip,proxy"`
}

// Listener accepts traffic on one port. Its key, such as tcp/443, is its identity.
type Listener struct {
	// Transport and port: the listener's identity.
	Key string `json:"key" pattern:"^(tcp|udp)/[1-9][0-9]{0,4}$" example:"tcp/443"`
	// What the listener understands of its traffic.
	Protocol string `json:"protocol" enum:"tcp,udp,http,https"`
	// The port that clients connect to.
	Port int32 `json:"port" minimum:"1" maximum:"65535"`
	// The key of the listener's pools, one pool per family of the vips. Listeners of udp require pools of udp, all
	// others must not use one.
	PoolKey string `json:"pool_key"`
	// http, https: requests per second; tcp, udp: new connections or flows per second. 0 means unlimited.
	MaxQPS int `json:"max_qps,omitempty" minimum:"0" maximum:"1000000"`
	// Connections at a time. 0 means unlimited.
	MaxConnections int `json:"max_connections,omitempty" minimum:"0" maximum:"1000000"`
	// Idle connections are closed after this time. 0 means the default.
	IdleTimeoutMS int64 `json:"idle_timeout_ms,omitempty" minimum:"0" maximum:"3600000"`
	// The header that tells backends the client's address. v1 and v2 require protocol tcp.
	ProxyProtocol string `json:"proxy_protocol,omitempty" enum:"none,v1,v2"`
	// Source ranges of clients. An empty list allows all.
	AllowedCIDRs []string `json:"allowed_cidrs,omitempty" maxItems:"256"`
	// The certificates. Required with protocol https, not allowed with any other.
	TLS *TLS `json:"tls,omitempty"`
}

// NeedsProxy reports whether the listener needs a proxy wherever it is. All other listeners can be forwarded by a kernel.
func (l *Listener) NeedsProxy() bool {
	return l.Protocol == ProtocolHTTP || l.Protocol == ProtocolHTTPS || l.Protocol == ProtocolTCP &&
		(l.MaxConnections > 0 || l.ProxyProtocol == ProxyProtocolV1 || l.ProxyProtocol == ProxyProtocolV2)
}

// TLS names the certificates of an https listener.
type TLS struct {
	// The ids of the certificates; which one is used depends on the name that the client asks for.
	CertificateIDs []string `json:"certificate_ids" minItems:"1" maxItems:"25"`
}

// Pool is the backend of listeners, for one address family. Its key and family are its identity.
type Pool struct {
	// With the family, the pool's identity.
	Key string `json:"key" minLength:"1" maxLength:"255" example:"tcp/443"`
	// The family of the members' addresses.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// How the members are spoken to.
	Protocol string `json:"protocol" enum:"tcp,udp,http,https"`
	// How members are selected.
	Algorithm string `json:"algorithm" enum:"round_robin,weighted_round_robin,least_connections,source_ip"`
	// Keeps clients on one member.
	SessionAffinity *SessionAffinity `json:"session_affinity,omitempty"`
	// The port of members. 0: members have no port of their own; requires listeners that edges forward directly.
	TargetPort int32 `json:"target_port" minimum:"0" maximum:"65535"`
	// The node group whose members are the pool's members. Must not be combined with members.
	NodeGroupID string `json:"node_group_id,omitempty"`
	// The members of a pool without a node group.
	Members []Member `json:"members,omitempty" maxItems:"1000"`
	// How long, in seconds, connections to a draining member may last.
	DrainTimeoutS int64 `json:"drain_timeout_s,omitempty" minimum:"0" maximum:"3600"`
	// How members are probed; without it, they are not.
	HealthMonitor *HealthMonitor `json:"health_monitor,omitempty"`
}

// SessionAffinity keeps a client on one member.
type SessionAffinity struct {
	// What identifies a client.
	Type string `json:"type" enum:"source_ip"`
	// How long, in seconds, a client is remembered.
	TimeoutS int64 `json:"timeout_s,omitempty" minimum:"0" maximum:"86400"`
}

// Member is one backend of a pool that does not refer to a node group.
type Member struct {
	// The member's identity in its pool.
	Key string `json:"key" minLength:"1" maxLength:"255"`
	// The address of the backend, of the pool's family.
	Address string `json:"address"`
	// The port of the backend. 0 requires that the pool's target_port is 0, too.
	Port int32 `json:"port" minimum:"0" maximum:"65535"`
	// The share of traffic relative to other members. 0 means that the member is draining.
	Weight int `json:"weight" minimum:"0" maximum:"256"`
	// draining: no new connections.
	State string `json:"state" enum:"active,draining"`
	// The instance that the backend runs on.
	InstanceID string `json:"instance_id,omitempty"`
	// The zone of the backend.
	Zone string `json:"zone,omitempty"`
	// What edges see of the member. An observation.
	OperatingState string `json:"operating_state,omitempty" readOnly:"true" enum:"online,offline,draining,unknown"`
	// Why the member is offline, in the words of an edge.
	Detail string `json:"detail,omitempty" readOnly:"true"`
}

// HealthMonitor probes the members of a pool.
type HealthMonitor struct {
	// The protocol of the probes; none does not probe.
	Type string `json:"type" enum:"tcp,http,https,none"`
	// The port to probe. 0 means the pool's target port.
	Port int32 `json:"port,omitempty" minimum:"0" maximum:"65535"`
	// The path to request. Requires type http or https.
	Path string `json:"path,omitempty" maxLength:"255"`
	// The status codes of healthy members. Requires type http or https.
	ExpectedCodes string `json:"expected_codes,omitempty" pattern:"^[1-5][0-9]{2}(-[1-5][0-9]{2})?(,[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$" example:"200-399"`
	// The time between probes.
	IntervalMS int64 `json:"interval_ms" minimum:"0" maximum:"300000"`
	// How long a probe waits for a response. Must be less than interval_ms.
	TimeoutMS int64 `json:"timeout_ms" minimum:"0" maximum:"60000"`
	// Successful probes until a member is online.
	Rise int `json:"rise" minimum:"0" maximum:"10"`
	// Failed probes until a member is offline.
	Fall int `json:"fall" minimum:"0" maximum:"10"`
}

// Health is the observed health of a load balancer's members.
type Health struct {
	// The state of the load balancer that follows from its members.
	OperatingState string `json:"operating_state" enum:"online,degraded,offline,no_members,unknown"`
	// One entry per pool and family.
	Pools []PoolHealth `json:"pools" nullable:"false"`
}

// PoolHealth is the health of one pool's members, including those of its node group.
type PoolHealth struct {
	// The key of the pool.
	Key string `json:"key"`
	// The family of the pool.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// The members with their operating states.
	Members []Member `json:"members" nullable:"false"`
}
