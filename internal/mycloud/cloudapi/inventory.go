package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Zones reads the zones of every region.
func (c *Client) Zones(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Zone], error) {
	return list[cloudv1.Zone](ctx, c, &request{path: "/v1/zones"}, o)
}

// Regions reads the regions.
func (c *Client) Regions(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Region], error) {
	return list[cloudv1.Region](ctx, c, &request{path: "/v1/regions"}, o)
}

// InstanceTypes reads the sizes that instances can have.
func (c *Client) InstanceTypes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.InstanceType], error) {
	return list[cloudv1.InstanceType](ctx, c, &request{path: "/v1/instance-types"}, o)
}

// Volume reads a volume.
func (c *Client) Volume(ctx context.Context, id string, o ReadOptions) (*cloudv1.Volume, error) {
	return get[cloudv1.Volume](ctx, c, "/v1/volumes/{id}", id, o)
}

// ListVolumes reads all pages of the volumes that o selects.
func (c *Client) ListVolumes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Volume], error) {
	return list[cloudv1.Volume](ctx, c, &request{path: "/v1/volumes"}, o)
}

// VolumeTypes reads the types that volumes can have.
func (c *Client) VolumeTypes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.VolumeType], error) {
	return list[cloudv1.VolumeType](ctx, c, &request{path: "/v1/volume-types"}, o)
}

// Meta reads what the cloud offers. It is also the cheapest way to check the token.
func (c *Client) Meta(ctx context.Context) (*cloudv1.Meta, error) {
	return read[cloudv1.Meta](ctx, c, &request{method: http.MethodGet, path: "/v1/meta"})
}

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
	return readValid(ctx, c, req, "items or revision is missing", func(res *cloudv1.LookupResult) bool {
		return res.Items != nil && res.Revision != ""
	})
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
