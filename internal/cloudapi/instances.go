package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Instance reads an instance. A deleted one is returned as a tombstone for some days.
func (c *Client) Instance(ctx context.Context, id string, o ReadOptions) (*cloudv1.Instance, error) {
	return get[cloudv1.Instance](ctx, c, "/v1/instances/{id}", id, o)
}

// ListInstances reads all pages of the instances that o selects.
func (c *Client) ListInstances(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Instance], error) {
	return list[cloudv1.Instance](ctx, c, &request{path: "/v1/instances"}, o)
}

// LookupInstances reads many instances by id and hostname, up to Limits.BatchMax of each.
func (c *Client) LookupInstances(ctx context.Context, r cloudv1.LookupRequest) (*cloudv1.LookupResult, error) {
	req := &request{method: http.MethodPost, path: "/v1/instances:lookup", body: r, asks: true}
	var res cloudv1.LookupResult
	if _, err := c.do(ctx, req, &res); err != nil {
		return nil, err
	}
	if res.Items == nil || res.Revision == "" {
		return nil, malformed(req, "items or revision is missing")
	}
	return &res, nil
}

// CreateInstance creates and starts an instance.
func (c *Client) CreateInstance(
	ctx context.Context, s cloudv1.InstanceSpec, o WriteOptions,
) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances", "", s, o)
}

// StartInstance starts a stopped instance.
func (c *Client) StartInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances/{id}:start", id, nil, o)
}

// StopInstance stops a running instance.
func (c *Client) StopInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances/{id}:stop", id, nil, o)
}

// DeleteInstance deletes an instance and returns its tombstone.
func (c *Client) DeleteInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodDelete, "/v1/instances/{id}", id, nil, o)
}
