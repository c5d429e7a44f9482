package cloudapi

import "context"

// Volume is a block device.
type Volume struct {
	Object
	Zone       string   `json:"zone,omitempty" doc:"Of a volume in one zone."`
	Zones      []string `json:"zones,omitempty" nullable:"false" doc:"Of a volume in several zones."`
	Region     string   `json:"region"`
	Type       string   `json:"type" example:"ssd"`
	SizeGiB    int      `json:"size_gib"`
	State      string   `json:"state" enum:"available,attached,error"`
	AttachedTo string   `json:"attached_to,omitempty" doc:"An instance's id."`
}

// VolumeType bounds what volumes of it may be.
type VolumeType struct {
	Object
	MaxSizeGiB      int  `json:"max_size_gib"`
	StepGiB         int  `json:"step_gib" doc:"Sizes are rounded up to a multiple of it."`
	OnlineExpansion bool `json:"online_expansion" doc:"Whether an attached volume can grow."`
}

// Volume reads a volume.
func (c *Client) Volume(ctx context.Context, id string, o ReadOptions) (*Volume, error) {
	return get[Volume](ctx, c, "/v1/volumes/{id}", id, o)
}

// ListVolumes reads all pages of the volumes that o selects.
func (c *Client) ListVolumes(ctx context.Context, o ListOptions) (*List[Volume], error) {
	return list[Volume](ctx, c, &request{path: "/v1/volumes"}, o)
}

// VolumeTypes reads the types that volumes can have.
func (c *Client) VolumeTypes(ctx context.Context, o ListOptions) (*List[VolumeType], error) {
	return list[VolumeType](ctx, c, &request{path: "/v1/volume-types"}, o)
}
