package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// NodeGroup reads a node group.
func (c *Client) NodeGroup(ctx context.Context, id string) (*cloudv1.NodeGroup, error) {
	return get[cloudv1.NodeGroup](ctx, c, "/v1/node-groups/{id}", id)
}

// ListNodeGroups reads all pages of the node groups that o selects.
func (c *Client) ListNodeGroups(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.NodeGroup], error) {
	return list[cloudv1.NodeGroup](ctx, c, &request{path: "/v1/node-groups"}, o)
}

// CreateNodeGroup creates a node group.
func (c *Client) CreateNodeGroup(
	ctx context.Context, s cloudv1.NodeGroupSpec, o WriteOptions,
) (*cloudv1.NodeGroup, error) {
	return write[cloudv1.NodeGroup](ctx, c, http.MethodPost, "/v1/node-groups", "", s, o)
}

// UpdateNodeGroup replaces name, tags and members. It requires WriteOptions.IfMatch.
func (c *Client) UpdateNodeGroup(
	ctx context.Context, id string, s cloudv1.NodeGroupSpec, o WriteOptions,
) (*cloudv1.NodeGroup, error) {
	return write[cloudv1.NodeGroup](ctx, c, http.MethodPut, "/v1/node-groups/{id}", id, s, o)
}

// PatchMembers changes members of a node group atomically. It requires WriteOptions.IfMatch.
func (c *Client) PatchMembers(
	ctx context.Context, id string, p cloudv1.MembersPatch, o WriteOptions,
) (*cloudv1.NodeGroup, error) {
	r := o.request(http.MethodPatch, "/v1/node-groups/{id}/members", id, p)
	r.nodes = true
	return send[cloudv1.NodeGroup](ctx, c, r, o)
}

// DeleteNodeGroup deletes a node group that no pool refers to. It requires WriteOptions.IfMatch.
func (c *Client) DeleteNodeGroup(ctx context.Context, id string, o WriteOptions) error {
	_, err := write[cloudv1.NodeGroup](ctx, c, http.MethodDelete, "/v1/node-groups/{id}", id, nil, o)
	return err
}

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
	return readValid(ctx, c, r, "the results do not match the operations", func(res *cloudv1.RoutesBatchResult) bool {
		return len(res.Results) == len(b.Upsert)+len(b.Remove)
	})
}

const holderPath = "/v1/clusters/{id}/holder"

// Holder reads which cluster may write in the name of a cluster UID.
func (c *Client) Holder(ctx context.Context, clusterUID string) (*cloudv1.ClusterHolder, error) {
	return get[cloudv1.ClusterHolder](ctx, c, holderPath, clusterUID)
}

// ClaimHolder records which cluster may write in the name of a cluster UID. Without WriteOptions.IfMatch, it fails if
// there is a record. Options.Withhold does not apply to it.
func (c *Client) ClaimHolder(
	ctx context.Context, clusterUID string, s cloudv1.ClusterHolderSpec, o WriteOptions,
) (*cloudv1.ClusterHolder, error) {
	r := o.request(http.MethodPut, holderPath, clusterUID, s)
	r.claims = true
	return getBy[cloudv1.ClusterHolder](ctx, c, r)
}

// DeleteHolder deletes the record of a cluster UID. It requires WriteOptions.IfMatch.
func (c *Client) DeleteHolder(ctx context.Context, clusterUID string, o WriteOptions) error {
	_, err := write[cloudv1.ClusterHolder](ctx, c, http.MethodDelete, holderPath, clusterUID, nil, o)
	return err
}
