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
