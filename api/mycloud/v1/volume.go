package v1

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
