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
	State           string      `json:"state" enum:"active,draining,offline"`
	HealthChangedAt *time.Time  `json:"health_changed_at,omitempty" readOnly:"true" doc:"When the states of members or the faults that the edge reports last changed. It changes with a new revision, so that those who follow changes know when to read observations again."`
	HeartbeatAt     *time.Time  `json:"heartbeat_at,omitempty" readOnly:"true" doc:"An observation: it changes without a new revision."`
	AppliedRevision string      `json:"applied_revision,omitempty" readOnly:"true" doc:"The edge has applied all changes up to this revision of the cloud, except for those in faults. An observation."`
	Faults          []EdgeFault `json:"faults" readOnly:"true" nullable:"false" doc:"What the edge could not apply. An observation."`
}

// EdgeFields holds the settings that Edge and EdgeSpec share.
type EdgeFields struct {
	Zone         string   `json:"zone,omitempty" maxLength:"63"`
	Addresses    []string `json:"addresses,omitempty" maxItems:"16" doc:"The addresses of the machine itself."`
	Capabilities []string `json:"capabilities,omitempty" maxItems:"16" doc:"direct, proxy or what later versions add."`
	Draining     bool     `json:"draining,omitempty" doc:"The edge is about to leave. A registration without it does not end a drain."`
}

// EdgePatch changes only the fields that it sets (RFC 7396).
type EdgePatch struct {
	Draining *bool `json:"draining,omitempty" doc:"Whether the edge is about to leave."`
}

// EdgeSpec is the body of a request to register an edge. Its name is unique: an edge that registers again gets the same
// id.
type EdgeSpec struct {
	Name string            `json:"name" minLength:"1" maxLength:"255"`
	Tags map[string]string `json:"tags,omitempty"`
	EdgeFields
}

// EdgeFault is why an edge does not do what a load balancer asks for. It goes on with what it last applied for it.
type EdgeFault struct {
	LoadBalancerID string `json:"load_balancer_id"`
	ListenerKey    string `json:"listener_key,omitempty" doc:"Absent if the fault is not of one listener."`
	Detail         string `json:"detail" doc:"The cloud keeps 1024 bytes."`
}

// The limits of a heartbeat, which its schema repeats because tags cannot refer to constants.
const (
	MaxFaults   = 20_000
	MaxHealth   = 100_000
	MaxCounters = 20_000
)

// Heartbeat is what an edge reports of itself. An edge that has not reported for a while is offline.
type Heartbeat struct {
	AppliedRevision string      `json:"applied_revision" pattern:"^[0-9]{0,20}$" doc:"The edge has applied all changes up to this revision of the cloud, except for those in faults. Empty if it has applied nothing yet."`
	Faults          []EdgeFault `json:"faults,omitempty" maxItems:"20000"`
	// Health and Counters replace what was reported before; nil means that it has not changed.
	Health   *[]MemberHealth    `json:"health,omitempty" maxItems:"100000" doc:"The health of all members. Absent if it has not changed since the last heartbeat."`
	Counters *[]ListenerCounter `json:"counters,omitempty" maxItems:"20000" doc:"The counters of all listeners. Absent if they have not changed since the last heartbeat."`
}

// HeartbeatReply is the response to a heartbeat.
type HeartbeatReply struct {
	// Complete is false if the cloud has no health or counters of the edge, such as after a restart: the next heartbeat
	// must have them.
	Complete bool `json:"complete" doc:"False if the next heartbeat must have health and counters."`
	// IntervalMS is the time until the next heartbeat is expected.
	IntervalMS int64 `json:"interval_ms" doc:"When the next heartbeat is expected, in milliseconds."`
}

// MemberHealth is the state of a member as one edge sees it.
type MemberHealth struct {
	LoadBalancerID string `json:"load_balancer_id"`
	PoolKey        string `json:"pool_key"`
	Family         string `json:"family" enum:"ipv4,ipv6"`
	MemberKey      string `json:"member_key"`
	State          string `json:"state" enum:"online,offline,draining,unknown"`
	Detail         string `json:"detail,omitempty" doc:"Why the member is offline. The cloud keeps 255 bytes."`
}

// ListenerCounter counts what one listener of a load balancer has done on one edge since the edge's engine started.
type ListenerCounter struct {
	LoadBalancerID string `json:"load_balancer_id"`
	ListenerKey    string `json:"listener_key"`
	Family         string `json:"family" enum:"ipv4,ipv6"`
	// Accepted counts requests of http and https, connections of tcp, and flows or packets of udp.
	Accepted uint64 `json:"accepted" doc:"Requests of http and https; connections of tcp; packets of udp."`
	// Refused counts what max_qps, max_connections or allowed_cidrs have kept out.
	Refused  uint64 `json:"refused" doc:"What max_qps, max_connections or allowed_cidrs have kept out, in the same unit."`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out" doc:"0 where responses go past the edge."`
}

// Stats is what the listeners of a load balancer have done on all edges. It decreases when an edge restarts its engine
// or is deleted.
type Stats struct {
	Listeners []ListenerCounter `json:"listeners" nullable:"false"`
}
