package cloudapi

import (
	"context"

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
