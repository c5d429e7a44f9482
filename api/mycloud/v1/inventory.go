package v1

// The states of zones and regions.
const (
	PlaceAvailable   = "available"
	PlaceUnavailable = "unavailable"
)

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

// InstanceType is a size of instances.
type InstanceType struct {
	Object
	CPUs      int `json:"cpus"`
	MemoryMiB int `json:"memory_mib"`
}

// The states of a volume.
const (
	VolumeAvailable = "available"
	VolumeAttached  = "attached"
	VolumeError     = "error"
)

// Volume is a block device.
type Volume struct {
	Object
	Zone       string   `json:"zone,omitempty" doc:"The zone of a volume in one zone."`
	Zones      []string `json:"zones,omitempty" nullable:"false" doc:"The zones of a volume in several zones."`
	Region     string   `json:"region"`
	Type       string   `json:"type" example:"ssd"`
	SizeGiB    int      `json:"size_gib"`
	State      string   `json:"state" enum:"available,attached,error"`
	AttachedTo string   `json:"attached_to,omitempty" doc:"The id of the instance that the volume is attached to."`
}

// VolumeType limits the size of volumes of that type.
type VolumeType struct {
	Object
	MaxSizeGiB      int  `json:"max_size_gib"`
	StepGiB         int  `json:"step_gib" doc:"Sizes are rounded up to a multiple of it."`
	OnlineExpansion bool `json:"online_expansion" doc:"Whether a volume can grow while it is attached."`
}
