package cloudapi

import (
	"context"
	"net/http"
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

// ListRouteTables reads the route tables.
func (c *Client) ListRouteTables(ctx context.Context, o ListOptions) (*List[RouteTable], error) {
	return list[RouteTable](ctx, c, &request{path: "/v1/route-tables"}, o)
}

// ListRoutes reads all pages of a table's routes that o selects.
func (c *Client) ListRoutes(ctx context.Context, tableID string, o ListOptions) (*List[Route], error) {
	return list[Route](ctx, c, &request{path: "/v1/route-tables/{id}/routes", id: tableID}, o)
}

// BatchRoutes changes many routes of a table, up to Limits.BatchMax. An error of one operation is in its result.
func (c *Client) BatchRoutes(ctx context.Context, tableID string, b RoutesBatch, o WriteOptions) (*RoutesBatchResult, error) {
	r := o.request(http.MethodPost, "/v1/route-tables/{id}/routes:batch", tableID, b)
	var res RoutesBatchResult
	if _, err := c.do(ctx, r, &res); err != nil {
		return nil, err
	}
	if len(res.Results) != len(b.Upsert)+len(b.Remove) {
		return nil, malformed(r, "the results do not match the operations")
	}
	return &res, nil
}
