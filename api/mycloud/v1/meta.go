package v1

import "time"

// The capabilities that a cloud may offer.
const (
	// CapabilityNodeGroups is offered by clouds whose pools can refer to node groups.
	CapabilityNodeGroups = "node-groups"
	// CapabilityJobs is offered by clouds whose writes may go on as jobs after the response.
	CapabilityJobs = "jobs"
	// CapabilityChanges is offered by clouds that report changes, so that clients need not list collections again.
	CapabilityChanges = "changes"
	// CapabilityFencing is offered by clouds that reject the writes of former leaders.
	CapabilityFencing = "fencing"
	// CapabilityHolders is offered by clouds that record which cluster may write in the name of a cluster UID.
	CapabilityHolders = "holders"
	// CapabilityMemberBatches is offered by clouds that can change the members of many pools in one request.
	CapabilityMemberBatches = "member-batches"
	// CapabilityEdges is offered by clouds that accept edges, which carry the traffic of load balancers.
	CapabilityEdges = "edges"
)

// The states of a cloud.
const (
	// StatusOK is the status of a cloud that knows all its objects.
	StatusOK = "ok"
	// StatusDegraded is the status of a cloud that may have objects it does not know of.
	StatusDegraded = "degraded"
)

// Meta describes the running API.
type Meta struct {
	// Identifies the cloud, whatever its address. It stays the same when the cloud is restored from a backup.
	ID string `json:"id" example:"cloud-2k7q3mvxw5c4sbn6ytr1zjhd8e"`
	// The version of the API's contract.
	APIVersion string `json:"api_version" example:"1.0.0"`
	// What this cloud offers beyond the basics.
	Capabilities []string `json:"capabilities" nullable:"false"`
	// degraded: objects may exist that the cloud does not know of.
	Status string `json:"status" enum:"ok,degraded"`
	// The limits of one request.
	Limits Limits `json:"limits"`
	// The revision of the last change: its number, and after a dot the name of the history that it belongs to, so
	// that a restored cloud never has a revision of the state that was lost. Read it before lists whose changes are
	// to be followed.
	Revision string `json:"revision" example:"42.5f3a91c0"`
	// The clock of the server.
	ServerTime time.Time `json:"server_time"`
}

// Limits bound what one request may ask for.
type Limits struct {
	// Objects per page.
	PageMax int `json:"page_max"`
	// Load balancers per page with expand=tree.
	TreePageMax int `json:"tree_page_max"`
	// Operations per batch, and ids per lookup.
	BatchMax int `json:"batch_max"`
	// Members per change of a node group.
	MembersMax int `json:"members_max"`
	// Values of the id filter of lists.
	FilterIDs int `json:"filter_ids_max"`
}
