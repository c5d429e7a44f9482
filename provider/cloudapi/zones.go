package cloudapi

import "context"

// Zone is a failure domain of a region.
type Zone struct {
	Object
	Region string `json:"region" example:"eu-1"`
	State  string `json:"state" enum:"available,unavailable"`
}

// Region is a set of zones.
type Region struct {
	Object
	State string `json:"state" enum:"available,unavailable"`
}

// InstanceType is a size of machine.
type InstanceType struct {
	Object
	CPUs      int `json:"cpus"`
	MemoryMiB int `json:"memory_mib"`
}

// Zones reads the zones of every region.
func (c *Client) Zones(ctx context.Context, o ListOptions) (*List[Zone], error) {
	return list[Zone](ctx, c, &request{path: "/v1/zones"}, o)
}

// Regions reads the regions.
func (c *Client) Regions(ctx context.Context, o ListOptions) (*List[Region], error) {
	return list[Region](ctx, c, &request{path: "/v1/regions"}, o)
}

// InstanceTypes reads the sizes that instances can have.
func (c *Client) InstanceTypes(ctx context.Context, o ListOptions) (*List[InstanceType], error) {
	return list[InstanceType](ctx, c, &request{path: "/v1/instance-types"}, o)
}
