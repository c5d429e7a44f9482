package v1

import "encoding/json"

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
	ProvisioningState ProvisioningState `json:"provisioning_state" enum:"pending_create,active,pending_update,pending_delete,error"`
	OperatingState    string            `json:"operating_state" enum:"online,degraded,offline,no_members,unknown" doc:"What edges see of the members; degraded also if an edge has not applied the last change. Unknown without edges. An observation: it changes without a new revision."`
	Fault             *Problem          `json:"fault,omitempty" doc:"Why provisioning_state is error."`

	// Unknown has what a client read of the tree and has no field for, so that an update can keep it. It is not part of
	// the API.
	Unknown json.RawMessage `json:"-"`
}

// LoadBalancerSpec is the body of a request to create or replace a load balancer: the whole tree.
type LoadBalancerSpec struct {
	Name string            `json:"name" minLength:"1" maxLength:"255" doc:"Unique among load balancers."`
	Tags map[string]string `json:"tags,omitempty"`
	LoadBalancerFields
}

// LoadBalancerPatch changes only the fields that it sets (RFC 7396). A nil value removes a tag.
type LoadBalancerPatch struct {
	Name               *string            `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Tags               map[string]*string `json:"tags,omitempty" doc:"null removes a tag."`
	DeletionProtection *bool              `json:"deletion_protection,omitempty"`
}

// Adoption is the body of a request to adopt a load balancer: the tags to add.
type Adoption struct {
	Tags map[string]string `json:"tags" minProperties:"1"`
}

// LoadBalancerFields holds the settings that LoadBalancer and LoadBalancerSpec share.
type LoadBalancerFields struct {
	Scheme  string   `json:"scheme" enum:"public,internal" doc:"Immutable."`
	Flavor  string   `json:"flavor,omitempty" maxLength:"63" doc:"Defaults to the cloud's default flavor."`
	Network *Network `json:"network,omitempty" doc:"Immutable."`
	Zones   []string `json:"zones,omitempty" doc:"Defaults to all zones."`
	// VIPs has at most one entry per family; an empty list asks for one ipv4 address.
	VIPs               []VIP `json:"vips,omitempty" maxItems:"2" doc:"At most one per family. Defaults to one ipv4 address."`
	DeletionProtection bool  `json:"deletion_protection,omitempty"`
	BandwidthMbps      int   `json:"bandwidth_mbps,omitempty" minimum:"0" maximum:"100000" doc:"0 means unlimited."`
	// Listeners and Pools are required in writes, even if empty; they are nil in a list without expand=tree.
	Listeners []Listener `json:"listeners,omitzero" maxItems:"256" doc:"Required in writes; absent in lists without expand=tree."`
	Pools     []Pool     `json:"pools,omitzero" maxItems:"512" doc:"Required in writes; absent in lists without expand=tree."`
}

// Network places a load balancer.
type Network struct {
	VPCID     string   `json:"vpc_id,omitempty"`
	SubnetIDs []string `json:"subnet_ids,omitempty"`
}

// VIP is an address of a load balancer. The cloud assigns ID and Address, and keeps them as long as the load balancer
// has a VIP of the family.
type VIP struct {
	ID      string `json:"id,omitempty" readOnly:"true"`
	Family  string `json:"family" enum:"ipv4,ipv6"`
	Address string `json:"address,omitempty" readOnly:"true"`
	Mode    string `json:"mode" enum:"vip,proxy"`
}

// Listener accepts traffic on one port. Its key, such as tcp/443, is its identity.
type Listener struct {
	Key      string `json:"key" pattern:"^(tcp|udp)/[1-9][0-9]{0,4}$" doc:"Transport and port: the listener's identity." example:"tcp/443"`
	Protocol string `json:"protocol" enum:"tcp,udp,http,https"`
	Port     int32  `json:"port" minimum:"1" maximum:"65535"`
	// PoolKey is the key of the listener's pools, one per family.
	PoolKey string `json:"pool_key" doc:"The key of the listener's pools, one pool per family of the vips. Listeners of udp require pools of udp, all others must not use one."`
	// MaxQPS limits requests per second for http and https, and new connections or flows per second for tcp and udp.
	MaxQPS         int    `json:"max_qps,omitempty" minimum:"0" maximum:"1000000" doc:"http, https: requests per second; tcp, udp: new connections or flows per second. 0 means unlimited."`
	MaxConnections int    `json:"max_connections,omitempty" minimum:"0" maximum:"1000000" doc:"0 means unlimited."`
	IdleTimeoutMS  int64  `json:"idle_timeout_ms,omitempty" minimum:"0" maximum:"3600000"`
	ProxyProtocol  string `json:"proxy_protocol,omitempty" enum:"none,v1,v2" doc:"v1 and v2 require protocol tcp."`
	// AllowedCIDRs restricts the source addresses of clients; an empty list allows all.
	AllowedCIDRs []string `json:"allowed_cidrs,omitempty" maxItems:"256" doc:"Source ranges of clients. An empty list allows all."`
	TLS          *TLS     `json:"tls,omitempty" doc:"Required with protocol https, not allowed with any other."`
}

// NeedsProxy reports whether the listener needs a proxy wherever it is. All other listeners can be forwarded by a kernel.
func (l *Listener) NeedsProxy() bool {
	return l.Protocol == ProtocolHTTP || l.Protocol == ProtocolHTTPS || l.Protocol == ProtocolTCP &&
		(l.MaxConnections > 0 || l.ProxyProtocol == ProxyProtocolV1 || l.ProxyProtocol == ProxyProtocolV2)
}

// TLS names the certificates of an https listener.
type TLS struct {
	CertificateIDs []string `json:"certificate_ids" minItems:"1" maxItems:"25"`
}

// Pool is the backend of listeners, for one address family. Key and Family are its identity.
type Pool struct {
	Key             string           `json:"key" minLength:"1" maxLength:"255" doc:"With the family, the pool's identity." example:"tcp/443"`
	Family          string           `json:"family" enum:"ipv4,ipv6"`
	Protocol        string           `json:"protocol" enum:"tcp,udp,http,https"`
	Algorithm       string           `json:"algorithm" enum:"round_robin,weighted_round_robin,least_connections,source_ip"`
	SessionAffinity *SessionAffinity `json:"session_affinity,omitempty"`
	// TargetPort is 0 if members have no port of their own: edges forward packets unchanged.
	TargetPort    int32          `json:"target_port" minimum:"0" maximum:"65535" doc:"0: members have no port of their own; requires listeners that edges forward directly."`
	NodeGroupID   string         `json:"node_group_id,omitempty" doc:"The node group whose members are the pool's members. Must not be combined with members."`
	Members       []Member       `json:"members,omitempty" maxItems:"1000"`
	DrainTimeoutS int64          `json:"drain_timeout_s,omitempty" minimum:"0" maximum:"3600"`
	HealthMonitor *HealthMonitor `json:"health_monitor,omitempty"`
}

// SessionAffinity keeps a client on one member.
type SessionAffinity struct {
	Type     string `json:"type" enum:"source_ip"`
	TimeoutS int64  `json:"timeout_s,omitempty" minimum:"0" maximum:"86400"`
}

// Member is one backend of a pool that does not refer to a node group.
type Member struct {
	Key            string `json:"key" minLength:"1" maxLength:"255"`
	Address        string `json:"address"`
	Port           int32  `json:"port" minimum:"0" maximum:"65535" doc:"0 requires that the pool's target_port is 0, too."`
	Weight         int    `json:"weight" minimum:"0" maximum:"256"`
	State          string `json:"state" enum:"active,draining"`
	InstanceID     string `json:"instance_id,omitempty"`
	Zone           string `json:"zone,omitempty"`
	OperatingState string `json:"operating_state,omitempty" readOnly:"true" enum:"online,offline,draining,unknown"`
	// Detail is why the member is offline, in the words of an edge.
	Detail string `json:"detail,omitempty" readOnly:"true" doc:"Why the member is offline."`
}

// HealthMonitor probes the members of a pool.
type HealthMonitor struct {
	Type string `json:"type" enum:"tcp,http,https,none"`
	// Port is the port to probe; 0 means the pool's target port.
	Port          int32  `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"0 means the pool's target port."`
	Path          string `json:"path,omitempty" maxLength:"255" doc:"Requires type http or https."`
	ExpectedCodes string `json:"expected_codes,omitempty" pattern:"^[1-5][0-9]{2}(-[1-5][0-9]{2})?(,[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$" doc:"Requires type http or https." example:"200-399"`
	IntervalMS    int64  `json:"interval_ms" minimum:"0" maximum:"300000"`
	TimeoutMS     int64  `json:"timeout_ms" minimum:"0" maximum:"60000" doc:"Must be less than interval_ms."`
	Rise          int    `json:"rise" minimum:"0" maximum:"10"`
	Fall          int    `json:"fall" minimum:"0" maximum:"10"`
}

// Health is the observed health of a load balancer's members.
type Health struct {
	OperatingState string       `json:"operating_state" enum:"online,degraded,offline,no_members,unknown"`
	Pools          []PoolHealth `json:"pools" nullable:"false"`
}

// PoolHealth is the health of one pool's members, including those of its node group.
type PoolHealth struct {
	Key     string   `json:"key"`
	Family  string   `json:"family" enum:"ipv4,ipv6"`
	Members []Member `json:"members" nullable:"false"`
}
