package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Edge reads an edge.
func (c *Client) Edge(ctx context.Context, id string, o ReadOptions) (*cloudv1.Edge, error) {
	return get[cloudv1.Edge](ctx, c, "/v1/edges/{id}", id, o)
}

// ListEdges reads all pages of the edges that o selects.
func (c *Client) ListEdges(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Edge], error) {
	return list[cloudv1.Edge](ctx, c, &request{path: "/v1/edges"}, o)
}

// RegisterEdge creates the edge with a name, or updates it. It requires the token of edges.
func (c *Client) RegisterEdge(ctx context.Context, s cloudv1.EdgeSpec, o WriteOptions) (*cloudv1.Edge, error) {
	return write[cloudv1.Edge](ctx, c, http.MethodPost, "/v1/edges", "", s, o)
}

// PatchEdge begins or ends the drain of an edge.
func (c *Client) PatchEdge(
	ctx context.Context, id string, p cloudv1.EdgePatch, o WriteOptions,
) (*cloudv1.Edge, error) {
	return write[cloudv1.Edge](ctx, c, http.MethodPatch, "/v1/edges/{id}", id, p, o)
}

// DeleteEdge deletes an edge. One that is still there registers again.
func (c *Client) DeleteEdge(ctx context.Context, id string, o WriteOptions) error {
	_, err := write[cloudv1.Edge](ctx, c, http.MethodDelete, "/v1/edges/{id}", id, nil, o)
	return err
}

// Heartbeat reports what an edge does. It requires the token of edges. The pace of requests does not apply to it: the
// edge would count as offline because of other requests.
func (c *Client) Heartbeat(ctx context.Context, id string, h cloudv1.Heartbeat) (*cloudv1.HeartbeatReply, error) {
	r := &request{
		method: http.MethodPost, path: "/v1/edges/{id}:heartbeat", id: id, body: h, asks: true, unpaced: true,
	}
	var reply cloudv1.HeartbeatReply
	if _, err := c.do(ctx, r, &reply); err != nil {
		return nil, err
	}
	if reply.IntervalMS <= 0 {
		return nil, malformed(r, "the interval is missing")
	}
	return &reply, nil
}
