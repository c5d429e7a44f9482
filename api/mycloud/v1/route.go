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
	// The network that the table belongs to.
	VPCID string `json:"vpc_id" example:"vpc-main"`
}

// Route is an entry of a route table.
type Route struct {
	Object
	// The table of the route.
	RouteTableID string `json:"route_table_id" example:"rt-main"`
	// The range of addresses that the route is for; unique in its table.
	Destination string `json:"destination" example:"10.244.1.0/24"`
	// Where the route leads.
	NextHop NextHop `json:"next_hop"`
	// blackhole: the instance of next_hop is deleted.
	State string `json:"state" enum:"active,blackhole"`
}

// NextHop is the instance or the address that a route leads to.
type NextHop struct {
	// The instance. Must not be combined with address.
	InstanceID string `json:"instance_id,omitempty"`
	// The address. Must not be combined with instance_id.
	Address string `json:"address,omitempty"`
}

// RouteSpec describes a route to create or replace.
type RouteSpec struct {
	// The range of addresses that the route is for; identifies the route in its table.
	Destination string `json:"destination" example:"10.244.1.0/24"`
	// Where the route leads.
	NextHop NextHop `json:"next_hop"`
	// Tags of the route.
	Tags map[string]string `json:"tags,omitempty"`
}

// RouteRemoval names a route to remove.
type RouteRemoval struct {
	// The destination of the route to remove.
	Destination string `json:"destination" example:"10.244.1.0/24"`
	// If set, must equal the route's next_hop; otherwise the removal fails.
	NextHop *NextHop `json:"next_hop,omitempty"`
}

// RoutesBatch changes many routes of a table. Each operation succeeds or fails independently.
type RoutesBatch struct {
	// Routes to add, or to replace by destination.
	Upsert []RouteSpec `json:"upsert,omitempty" maxItems:"500"`
	// Routes to remove.
	Remove []RouteRemoval `json:"remove,omitempty" maxItems:"500"`
}

// RoutesBatchResult answers a RoutesBatch with one result per operation, upserts first, in order.
type RoutesBatchResult struct {
	// One result per operation, upserts first, in order.
	Results []RouteResult `json:"results" nullable:"false"`
}

// RouteResult is the result of one operation of a RoutesBatch. The operation succeeded if it has no error.
type RouteResult struct {
	// The operation.
	Op string `json:"op" enum:"upsert,remove"`
	// The destination of the operation.
	Destination string `json:"destination"`
	// The HTTP status that the operation would have had as a request of its own.
	Status int `json:"status"`
	// The route after an upsert.
	Route *Route `json:"route,omitempty"`
	// Why the operation failed; absent if it succeeded.
	Error *Problem `json:"error,omitempty"`
}
