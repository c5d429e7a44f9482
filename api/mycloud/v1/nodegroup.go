package v1

// The states of members, both of node groups and of pools.
const (
	MemberActive   = "active"
	MemberDraining = "draining"
)

// NodeGroup is a set of members that pools refer to, so that one change reaches every load balancer.
type NodeGroup struct {
	Object
	// The machines of the group.
	Members []GroupMember `json:"members" nullable:"false"`
}

// GroupMember is one machine of a node group.
type GroupMember struct {
	// The member's identity in its group.
	Key string `json:"key" minLength:"1" maxLength:"255"`
	// The instance that the machine is.
	InstanceID string `json:"instance_id,omitempty"`
	// The addresses of the machine, at most one per family.
	Addresses []MemberAddress `json:"addresses" minItems:"1"`
	// The share of traffic relative to other members. 0 means that the member is draining.
	Weight int `json:"weight" minimum:"0" maximum:"256"`
	// draining: no new connections.
	State string `json:"state" enum:"active,draining"`
	// The zone of the machine.
	Zone string `json:"zone,omitempty"`
}

// MemberAddress is one address of a member of a node group.
type MemberAddress struct {
	// The family of the address.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// The address.
	Address string `json:"address"`
}

// NodeGroupSpec is the body of a request to create or replace a node group.
type NodeGroupSpec struct {
	// Unique among node groups.
	Name string `json:"name" minLength:"1" maxLength:"255"`
	// Tags of the node group; a replacement without them removes all.
	Tags map[string]string `json:"tags,omitempty"`
	// The machines of the group.
	Members []GroupMember `json:"members,omitempty" maxItems:"1000"`
}

// MembersPatch changes the members of a node group atomically.
type MembersPatch struct {
	// Members to add, or to replace by key.
	Upsert []GroupMember `json:"upsert,omitempty" maxItems:"1000"`
	// Keys of members; keys that no member has are ignored.
	Remove []string `json:"remove,omitempty" maxItems:"1000"`
}
