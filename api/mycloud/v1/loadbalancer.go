package v1

// ProvisioningState tells whether the cloud has caught up with what was asked of a load balancer.
type ProvisioningState string

// The provisioning states of a load balancer.
const (
	PendingCreate ProvisioningState = "pending_create"
	Active        ProvisioningState = "active"
	PendingUpdate ProvisioningState = "pending_update"
	PendingDelete ProvisioningState = "pending_delete"
	ProvisionFail ProvisioningState = "error"
)

// LoadBalancer is a load balancer with its whole tree. Its operating state, and that of its members, is an observation:
// it changes without a new revision.
type LoadBalancer struct {
	Object
	LoadBalancerFields
	ProvisioningState ProvisioningState `json:"provisioning_state" enum:"pending_create,active,pending_update,pending_delete,error"`
	OperatingState    string            `json:"operating_state" enum:"online,degraded,offline,no_members,unknown" doc:"An observation: it changes without a new revision."`
	Fault             *Problem          `json:"fault,omitempty" doc:"Why provisioning_state is error."`
}

// LoadBalancerSpec is what a client writes of a load balancer: the whole tree.
type LoadBalancerSpec struct {
	Name string            `json:"name" minLength:"1" maxLength:"255" doc:"Unique among load balancers."`
	Tags map[string]string `json:"tags,omitempty"`
	LoadBalancerFields
}

// LoadBalancerPatch changes what it names and nothing else (RFC 7396). A nil value removes a tag.
type LoadBalancerPatch struct {
	Name               *string            `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Tags               map[string]*string `json:"tags,omitempty" doc:"null removes a tag."`
	DeletionProtection *bool              `json:"deletion_protection,omitempty"`
}

// Adoption is the body of a request to adopt a load balancer: the tags to add.
type Adoption struct {
	Tags map[string]string `json:"tags" minProperties:"1"`
}

// LoadBalancerFields are the settings that a LoadBalancer and its spec share.
type LoadBalancerFields struct {
	Scheme  string   `json:"scheme" enum:"public,internal" doc:"Cannot change."`
	Flavor  string   `json:"flavor,omitempty" maxLength:"63" doc:"The cloud's default, if absent."`
	Network *Network `json:"network,omitempty" doc:"Cannot change."`
	Zones   []string `json:"zones,omitempty" doc:"All, if absent."`
	// VIPs are one a family at most; none asks for one of ipv4.
	VIPs               []VIP `json:"vips,omitempty" maxItems:"2" doc:"At most one a family; none asks for one of ipv4."`
	DeletionProtection bool  `json:"deletion_protection,omitempty"`
	BandwidthMbps      int   `json:"bandwidth_mbps,omitempty" minimum:"0" maximum:"100000" doc:"0 is no bound."`
	// Listeners and Pools must be there in a write, if empty; nil in a list without the trees.
	Listeners []Listener `json:"listeners,omitzero" maxItems:"256" doc:"Required in writes; absent in lists without expand=tree."`
	Pools     []Pool     `json:"pools,omitzero" maxItems:"512" doc:"Required in writes; absent in lists without expand=tree."`
}

// Network places a load balancer.
type Network struct {
	VPCID     string   `json:"vpc_id,omitempty"`
	SubnetIDs []string `json:"subnet_ids,omitempty"`
}

// VIP is an address of a load balancer. The cloud assigns ID and Address, and keeps them while the family stays.
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
	// PoolKey names the pools, one a family.
	PoolKey string `json:"pool_key" doc:"The key that the listener's pools bear, one pool for each family of the vips; pools of udp are for listeners of udp, and no others."`
	// MaxQPS bounds requests per second for http and https, else new connections or flows per second; 0 is no bound.
	MaxQPS         int    `json:"max_qps,omitempty" minimum:"0" maximum:"1000000" doc:"http, https: requests a second; tcp, udp: new connections or flows a second; 0 is no bound."`
	MaxConnections int    `json:"max_connections,omitempty" minimum:"0" maximum:"1000000" doc:"0 is no bound."`
	IdleTimeoutMS  int64  `json:"idle_timeout_ms,omitempty" minimum:"0" maximum:"3600000"`
	ProxyProtocol  string `json:"proxy_protocol,omitempty" enum:"none,v1,v2" doc:"v1 and v2: tcp alone."`
	// AllowedCIDRs are the sources let in; empty lets everyone in.
	AllowedCIDRs []string `json:"allowed_cidrs,omitempty" maxItems:"256" doc:"Empty lets everyone in."`
	TLS          *TLS     `json:"tls,omitempty" doc:"https alone, which needs it."`
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
	TargetPort      int32            `json:"target_port" minimum:"1" maximum:"65535"`
	NodeGroupID     string           `json:"node_group_id,omitempty" doc:"The members are the node group's; excludes members."`
	Members         []Member         `json:"members,omitempty" maxItems:"1000"`
	DrainTimeoutS   int64            `json:"drain_timeout_s,omitempty" minimum:"0" maximum:"3600"`
	HealthMonitor   *HealthMonitor   `json:"health_monitor,omitempty"`
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
	Port           int32  `json:"port" minimum:"1" maximum:"65535"`
	Weight         int    `json:"weight" minimum:"0" maximum:"256"`
	State          string `json:"state" enum:"active,draining"`
	InstanceID     string `json:"instance_id,omitempty"`
	Zone           string `json:"zone,omitempty"`
	OperatingState string `json:"operating_state,omitempty" readOnly:"true" enum:"online,offline,draining,unknown"`
}

// HealthMonitor probes the members of a pool.
type HealthMonitor struct {
	Type string `json:"type" enum:"tcp,http,https,none"`
	// Port is what to probe; 0 is the pool's target port.
	Port          int32  `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"0 is the pool's target port."`
	Path          string `json:"path,omitempty" maxLength:"255" doc:"http and https alone."`
	ExpectedCodes string `json:"expected_codes,omitempty" pattern:"^[1-5][0-9]{2}(-[1-5][0-9]{2})?(,[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$" doc:"http and https alone." example:"200-399"`
	IntervalMS    int64  `json:"interval_ms" minimum:"0" maximum:"300000"`
	TimeoutMS     int64  `json:"timeout_ms" minimum:"0" maximum:"60000" doc:"Less than the interval."`
	Rise          int    `json:"rise" minimum:"0" maximum:"10"`
	Fall          int    `json:"fall" minimum:"0" maximum:"10"`
}

// Health is what a load balancer observes of its members.
type Health struct {
	OperatingState string       `json:"operating_state" enum:"online,degraded,offline,no_members,unknown"`
	Pools          []PoolHealth `json:"pools" nullable:"false"`
}

// PoolHealth is the health of one pool's members, those of its node group included.
type PoolHealth struct {
	Key     string   `json:"key"`
	Family  string   `json:"family" enum:"ipv4,ipv6"`
	Members []Member `json:"members" nullable:"false"`
}
