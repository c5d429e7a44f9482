package v1

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
	// State is active, or blackhole where the instance it leads to is deleted.
	State string `json:"state" enum:"active,blackhole" doc:"blackhole: the instance it leads to is deleted."`
}

// NextHop is where a route leads: to an instance or to an address.
type NextHop struct {
	InstanceID string `json:"instance_id,omitempty" doc:"Excludes address."`
	Address    string `json:"address,omitempty" doc:"Excludes instance_id."`
}

// RouteSpec is what a client writes of a route.
type RouteSpec struct {
	Destination string            `json:"destination" example:"10.244.1.0/24"`
	NextHop     NextHop           `json:"next_hop"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// RouteRemoval names a route to remove.
type RouteRemoval struct {
	Destination string `json:"destination" example:"10.244.1.0/24"`
	// NextHop, if set, must be the route's, else the removal fails.
	NextHop *NextHop `json:"next_hop,omitempty" doc:"If set, must be the route's."`
}

// RoutesBatch changes many routes of a table. Each operation succeeds or fails alone.
type RoutesBatch struct {
	Upsert []RouteSpec    `json:"upsert,omitempty" maxItems:"500"`
	Remove []RouteRemoval `json:"remove,omitempty" maxItems:"500"`
}

// RoutesBatchResult answers a RoutesBatch: one result per operation, upserts first, in order.
type RoutesBatchResult struct {
	Results []RouteResult `json:"results" nullable:"false"`
}

// RouteResult is the fate of one operation of a RoutesBatch: done if Error is nil.
type RouteResult struct {
	Op          string   `json:"op" enum:"upsert,remove"`
	Destination string   `json:"destination"`
	Status      int      `json:"status" doc:"What a request of its own would have been answered."`
	Route       *Route   `json:"route,omitempty"`
	Error       *Problem `json:"error,omitempty"`
}
