package v1

// The states of members, both of node groups and of pools.
const (
	MemberActive   = "active"
	MemberDraining = "draining"
)

// NodeGroup is a set of members that pools refer to, so that one change reaches every load balancer.
type NodeGroup struct {
	Object
	Members []GroupMember `json:"members" nullable:"false"`
}

// GroupMember is one machine of a node group.
type GroupMember struct {
	Key        string          `json:"key" minLength:"1" maxLength:"255" doc:"The member's identity in its group."`
	InstanceID string          `json:"instance_id,omitempty"`
	Addresses  []MemberAddress `json:"addresses" minItems:"1"`
	Weight     int             `json:"weight" minimum:"0" maximum:"256"`
	State      string          `json:"state" enum:"active,draining"`
	Zone       string          `json:"zone,omitempty"`
}

// MemberAddress is one address of a member of a node group.
type MemberAddress struct {
	Family  string `json:"family" enum:"ipv4,ipv6"`
	Address string `json:"address"`
}

// NodeGroupSpec is the body of a request to create or replace a node group.
type NodeGroupSpec struct {
	Name    string            `json:"name" minLength:"1" maxLength:"255" doc:"Unique among node groups."`
	Tags    map[string]string `json:"tags,omitempty"`
	Members []GroupMember     `json:"members,omitempty" maxItems:"1000"`
}

// MembersPatch changes the members of a node group atomically.
type MembersPatch struct {
	Upsert []GroupMember `json:"upsert,omitempty" maxItems:"1000"`
	Remove []string      `json:"remove,omitempty" maxItems:"1000" doc:"Keys of members; keys that no member has are ignored."`
}
