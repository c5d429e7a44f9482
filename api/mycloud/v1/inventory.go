package v1

// The states of zones and regions.
const (
	PlaceAvailable   = "available"
	PlaceUnavailable = "unavailable"
)

// Zone is a failure domain of a region.
type Zone struct {
	Object
	// The region of the zone.
	Region string `json:"region" example:"eu-1"`
	// Whether the zone can be used.
	State string `json:"state" enum:"available,unavailable"`
}

// Region is a set of zones.
type Region struct {
	Object
	// Whether the region can be used.
	State string `json:"state" enum:"available,unavailable"`
}

// InstanceType is a size of instances.
type InstanceType struct {
	Object
	// The number of virtual CPUs.
	CPUs int `json:"cpus"`
	// The memory in MiB.
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
	// The zone of a volume in one zone.
	Zone string `json:"zone,omitempty"`
	// The zones of a volume in several zones.
	Zones []string `json:"zones,omitempty" nullable:"false"`
	// The region of the volume.
	Region string `json:"region"`
	// The name of the volume's type.
	Type string `json:"type" example:"ssd"`
	// The size in GiB.
	SizeGiB int `json:"size_gib"`
	// Whether the volume can be attached.
	State string `json:"state" enum:"available,attached,error"`
	// The id of the instance that the volume is attached to.
	AttachedTo string `json:"attached_to,omitempty"`
}

// VolumeType limits the size of volumes of that type.
type VolumeType struct {
	Object
	// The size in GiB that volumes can have at most.
	MaxSizeGiB int `json:"max_size_gib"`
	// Sizes in GiB are rounded up to a multiple of it.
	StepGiB int `json:"step_gib"`
	// Whether a volume can grow while it is attached.
	OnlineExpansion bool `json:"online_expansion"`
}
