package api

import (
	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/store"
)

// registerPlaces adds the operations of what an inventory brings in: where instances can be, and of which sizes.
func registerPlaces(r *read.Reader) {
	zones := read.View[cloudv1.Zone]{Kind: store.Zones, State: func(z *cloudv1.Zone) string { return z.State }}
	read.RegisterList(r, operation.New("list-zones", "places", "Zones"), "/v1/zones", zones)
	read.RegisterObject(r, operation.New("get-zone", "places", "A zone"), "/v1/zones/{id}", zones)
	regions := read.View[cloudv1.Region]{Kind: store.Regions, State: func(r *cloudv1.Region) string { return r.State }}
	read.RegisterList(r, operation.New("list-regions", "places", "Regions"), "/v1/regions", regions)
	read.RegisterObject(r, operation.New("get-region", "places", "A region"), "/v1/regions/{id}", regions)
	types := read.View[cloudv1.InstanceType]{Kind: store.InstanceTypes}
	read.RegisterList(r, operation.New("list-instance-types", "instances", "Sizes of instances"), "/v1/instance-types", types)
	read.RegisterObject(r, operation.New("get-instance-type", "instances", "A size of instances"), "/v1/instance-types/{id}", types)
}

// registerVolumes adds the operations of volumes, which are only read.
func registerVolumes(r *read.Reader) {
	volumes := read.View[cloudv1.Volume]{Kind: store.Volumes, State: func(v *cloudv1.Volume) string { return v.State }}
	read.RegisterList(r, operation.New("list-volumes", "volumes", "Volumes"), "/v1/volumes", volumes)
	read.RegisterObject(r, operation.New("get-volume", "volumes", "A volume"), "/v1/volumes/{id}", volumes)
	types := read.View[cloudv1.VolumeType]{Kind: store.VolumeTypes}
	read.RegisterList(r, operation.New("list-volume-types", "volumes", "Types of volumes"), "/v1/volume-types", types)
	read.RegisterObject(r, operation.New("get-volume-type", "volumes", "A type of volumes"), "/v1/volume-types/{id}", types)
}
