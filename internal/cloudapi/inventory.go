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
	var m cloudv1.Meta
	if _, err := c.do(ctx, &request{method: http.MethodGet, path: "/v1/meta"}, &m); err != nil {
		return nil, err
	}
	return &m, nil
}
