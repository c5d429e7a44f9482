package v1

import "time"

// The states of an edge.
const (
	// EdgeActive is the state of an edge that carries traffic.
	EdgeActive = "active"
	// EdgeDraining is the state of an edge that is about to leave: it carries the traffic that still arrives.
	EdgeDraining = "draining"
	// EdgeOffline is the state of an edge that has not been heard of for a while.
	EdgeOffline = "offline"
)

// The capabilities of edges.
const (
	// EdgeDirect is the capability to forward packets unchanged to the nodes, so that no node ports are needed.
	EdgeDirect = "direct"
	// EdgeProxy is the capability to serve http, https and everything else that needs a proxy.
	EdgeProxy = "proxy"
)

// Edge is a machine that carries the traffic of load balancers. Its heartbeat, applied revision and faults are
// observations: they change without a new revision. Its state and the time of its last news about members change with one.
type Edge struct {
	Object
	EdgeFields
	// offline: the edge has not sent a heartbeat for a while.
	State string `json:"state" enum:"active,draining,offline"`
	// When the states of members or the faults that the edge reports last changed. It changes with a new revision,
	// so that those who follow changes know when to read observations again.
	HealthChangedAt *time.Time `json:"health_changed_at,omitempty" readOnly:"true"`
	// When the last heartbeat arrived. An observation: it changes without a new revision.
	HeartbeatAt *time.Time `json:"heartbeat_at,omitempty" readOnly:"true"`
	// The edge has applied all changes up to this revision of the cloud, except for those in faults. An
	// observation.
	AppliedRevision string `json:"applied_revision,omitempty" readOnly:"true"`
	// What the edge could not apply. An observation.
	Faults []EdgeFault `json:"faults" readOnly:"true" nullable:"false"`
}

// EdgeFields holds the settings that Edge and EdgeSpec share.
type EdgeFields struct {
	// The zone of the machine.
	Zone string `json:"zone,omitempty" maxLength:"63"`
	// The addresses of the machine itself.
	Addresses []string `json:"addresses,omitempty" maxItems:"16"`
	// direct, proxy or what later versions add.
	Capabilities []string `json:"capabilities,omitempty" maxItems:"16"`
	// The edge is about to leave. A registration without it does not end a drain.
	Draining bool `json:"draining,omitempty"`
}

// EdgePatch changes only the fields that it sets (RFC 7396).
type EdgePatch struct {
	// Whether the edge is about to leave.
	Draining *bool `json:"draining,omitempty"`
}

// EdgeSpec is the body of a request to register an edge. Its name is unique: an edge that registers again gets the same
// id.
type EdgeSpec struct {
	// Unique among edges.
	Name string `json:"name" minLength:"1" maxLength:"255"`
	// Tags of the edge.
	Tags map[string]string `json:"tags,omitempty"`
	// The edge's own token: random, and kept on its machine. All requests but registrations need it. Required with the
	// token that edges share. A machine with a different token cannot register with the name of the edge.
	Token string `json:"token,omitempty" writeOnly:"true" minLength:"26" maxLength:"255"`
	EdgeFields
}

// EdgeFault is why an edge does not do what a load balancer asks for. It goes on with what it last applied for it.
type EdgeFault struct {
	// The load balancer that the edge could not apply.
	LoadBalancerID string `json:"load_balancer_id"`
	// Absent if the fault is not of one listener.
	ListenerKey string `json:"listener_key,omitempty"`
	// What went wrong, for human readers. The cloud keeps 1024 bytes.
	Detail string `json:"detail"`
	// True if the edge applies it by itself in a while. Jobs wait for that as long as for an edge that has not answered.
	Pending bool `json:"pending,omitempty"`
}

// The limits of a heartbeat, which its schema repeats because tags cannot refer to constants.
const (
	MaxFaults    = 20_000
	MaxHealth    = 100_000
	MaxCounters  = 20_000
	MaxAnnounced = 40_000
)

// Heartbeat is what an edge reports of itself. An edge that has not reported for a while is offline.
type Heartbeat struct {
	// The edge has applied all changes up to this revision of the cloud, except for those in faults. Empty if it
	// has applied nothing yet.
	AppliedRevision string `json:"applied_revision" pattern:"^([0-9]{1,20}(\\.[0-9a-f]{8})?)?$"`
	// What the edge could not apply; it replaces what was reported before.
	Faults []EdgeFault `json:"faults,omitempty" maxItems:"20000"`
	// The members whose health has changed since the last heartbeat, or as many of them as fit in it; the next one has
	// the rest. Members that the edge no longer has are unknown.
	Health *[]MemberHealth `json:"health,omitempty" maxItems:"100000"`
	// The cloud forgets the health that the edge reported before.
	HealthReset bool `json:"health_reset,omitempty"`
	// The counters of all listeners. Absent if they have not changed since the last heartbeat.
	Counters *[]ListenerCounter `json:"counters,omitempty" maxItems:"20000"`
	// The addresses that the edge announces, so that their traffic arrives. Absent if they have not changed since the
	// last heartbeat.
	Announced *[]string `json:"announced,omitempty" maxItems:"40000"`
}

// HeartbeatReply is the response to a heartbeat.
type HeartbeatReply struct {
	// False if the cloud has no health or counters of the edge, such as after a restart: the next heartbeats must
	// have all of them, the first with health_reset.
	Complete bool `json:"complete"`
	// When the next heartbeat is expected, in milliseconds.
	IntervalMS int64 `json:"interval_ms"`
}

// MemberHealth is the state of a member as one edge sees it.
type MemberHealth struct {
	// The load balancer of the pool.
	LoadBalancerID string `json:"load_balancer_id"`
	// The key of the member's pool.
	PoolKey string `json:"pool_key"`
	// The family of the member's pool.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// The key of the member in its pool or node group.
	MemberKey string `json:"member_key"`
	// What the probes of the edge say; draining while the member is leaving, unknown until it was probed.
	State string `json:"state" enum:"online,offline,draining,unknown"`
	// Why the member is offline. The cloud keeps 255 bytes.
	Detail string `json:"detail,omitempty"`
}

// ListenerCounter counts what one listener of a load balancer has done on one edge since the edge's engine started.
type ListenerCounter struct {
	// The load balancer of the listener.
	LoadBalancerID string `json:"load_balancer_id"`
	// The key of the listener.
	ListenerKey string `json:"listener_key"`
	// The family of the address at which traffic arrived.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// Requests of http and https; connections of tcp; packets of udp.
	Accepted uint64 `json:"accepted"`
	// What max_qps, max_connections or allowed_cidrs have kept out, in the same unit.
	Refused uint64 `json:"refused"`
	// Bytes received from clients.
	BytesIn uint64 `json:"bytes_in"`
	// Bytes sent to clients; 0 where the kernel forwards, as it counts requests only.
	BytesOut uint64 `json:"bytes_out"`
}

// Stats is what the listeners of a load balancer have done on all edges. It decreases when an edge restarts its engine
// or is deleted.
type Stats struct {
	// One entry per listener and family.
	Listeners []ListenerCounter `json:"listeners" nullable:"false"`
}
