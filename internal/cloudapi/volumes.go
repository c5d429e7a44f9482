package cloudapi

import (
	"context"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

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
