package v1

// The states of a route.
const (
	RouteActive = "active"
	// RouteBlackhole is the state of a route whose instance is deleted.
	RouteBlackhole = "blackhole"
)

// The operations of a RoutesBatch.
const (
	RouteUpsert = "upsert"
	RouteRemove = "remove"
)

// RouteTable holds the routes of a network.
type RouteTable struct {
	Object
	VPCID string `json:"vpc_id" example:"vpc-main"`
}

// Route is an entry of a route table.
type Route struct {
	Object
	RouteTableID string  `json:"route_table_id" example:"rt-main"`
	Destination  string  `json:"destination" example:"10.244.1.0/24"`
	NextHop      NextHop `json:"next_hop"`
	State        string  `json:"state" enum:"active,blackhole" doc:"blackhole: the instance of next_hop is deleted."`
}

// NextHop is the instance or the address that a route leads to.
type NextHop struct {
	InstanceID string `json:"instance_id,omitempty" doc:"Must not be combined with address."`
	Address    string `json:"address,omitempty" doc:"Must not be combined with instance_id."`
}

// RouteSpec describes a route to create or replace.
type RouteSpec struct {
	Destination string            `json:"destination" example:"10.244.1.0/24"`
	NextHop     NextHop           `json:"next_hop"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// RouteRemoval names a route to remove.
type RouteRemoval struct {
	Destination string `json:"destination" example:"10.244.1.0/24"`
	// NextHop, if set, must equal the route's next hop; otherwise the removal fails.
	NextHop *NextHop `json:"next_hop,omitempty" doc:"If set, must equal the route's next_hop."`
}

// RoutesBatch changes many routes of a table. Each operation succeeds or fails independently.
type RoutesBatch struct {
	Upsert []RouteSpec    `json:"upsert,omitempty" maxItems:"500"`
	Remove []RouteRemoval `json:"remove,omitempty" maxItems:"500"`
}

// RoutesBatchResult answers a RoutesBatch with one result per operation, upserts first, in order.
type RoutesBatchResult struct {
	Results []RouteResult `json:"results" nullable:"false"`
}

// RouteResult is the result of one operation of a RoutesBatch. The operation succeeded if Error is nil.
type RouteResult struct {
	Op          string   `json:"op" enum:"upsert,remove"`
	Destination string   `json:"destination"`
	Status      int      `json:"status" doc:"The HTTP status that the operation would have had as a request of its own."`
	Route       *Route   `json:"route,omitempty"`
	Error       *Problem `json:"error,omitempty"`
}
