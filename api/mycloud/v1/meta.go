package v1

import "time"

// CapabilityNodeGroups is offered by clouds whose pools can refer to node groups.
const CapabilityNodeGroups = "node-groups"

// StatusOK is the status of a cloud that knows what it has.
const StatusOK = "ok"

// Meta describes the cloud's API as it runs.
type Meta struct {
	APIVersion   string    `json:"api_version" example:"1.0.0"`
	Capabilities []string  `json:"capabilities" nullable:"false" doc:"What this cloud offers beyond the basics."`
	Status       string    `json:"status" enum:"ok,degraded" doc:"degraded: what the cloud does not know of may exist nevertheless."`
	Limits       Limits    `json:"limits"`
	ServerTime   time.Time `json:"server_time"`
}

// Limits are the bounds that the cloud puts on one request.
type Limits struct {
	PageMax     int `json:"page_max" doc:"Objects a page."`
	TreePageMax int `json:"tree_page_max" doc:"Load balancers a page with expand=tree."`
	BatchMax    int `json:"batch_max" doc:"Operations a batch, and ids a lookup."`
	MembersMax  int `json:"members_max" doc:"Members a change of a node group."`
	FilterIDs   int `json:"filter_ids_max" doc:"Values of the id filter of lists."`
}
