package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// ListRouteTables reads the route tables.
func (c *Client) ListRouteTables(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.RouteTable], error) {
	return list[cloudv1.RouteTable](ctx, c, &request{path: "/v1/route-tables"}, o)
}

// ListRoutes reads all pages of a table's routes that o selects.
func (c *Client) ListRoutes(ctx context.Context, tableID string, o ListOptions) (*cloudv1.List[cloudv1.Route], error) {
	return list[cloudv1.Route](ctx, c, &request{path: "/v1/route-tables/{id}/routes", id: tableID}, o)
}

// BatchRoutes changes many routes of a table, up to Limits.BatchMax. The result has the error of each operation.
func (c *Client) BatchRoutes(
	ctx context.Context, tableID string, b cloudv1.RoutesBatch, o WriteOptions,
) (*cloudv1.RoutesBatchResult, error) {
	r := o.request(http.MethodPost, "/v1/route-tables/{id}/routes:batch", tableID, b)
	r.nodes = true
	var res cloudv1.RoutesBatchResult
	if _, err := c.do(ctx, r, &res); err != nil {
		return nil, err
	}
	if len(res.Results) != len(b.Upsert)+len(b.Remove) {
		return nil, malformed(r, "the results do not match the operations")
	}
	return &res, nil
}
