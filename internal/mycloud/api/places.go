package api

import (
	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

func (a *API) registerPlaces() {
	zones := view[cloudv1.Zone]{kind: store.Zones, state: func(z *cloudv1.Zone) string { return z.State }}
	registerList(a, operation{"list-zones", "places", "Zones"}, "/v1/zones", zones)
	registerGet(a, operation{"get-zone", "places", "A zone"}, "/v1/zones/{id}", zones)
	regions := view[cloudv1.Region]{kind: store.Regions, state: func(r *cloudv1.Region) string { return r.State }}
	registerList(a, operation{"list-regions", "places", "Regions"}, "/v1/regions", regions)
	registerGet(a, operation{"get-region", "places", "A region"}, "/v1/regions/{id}", regions)
	types := view[cloudv1.InstanceType]{kind: store.InstanceTypes}
	registerList(a, operation{"list-instance-types", "instances", "Sizes of instances"}, "/v1/instance-types", types)
	registerGet(a, operation{"get-instance-type", "instances", "A size of instances"}, "/v1/instance-types/{id}", types)
}

func (a *API) registerVolumes() {
	volumes := view[cloudv1.Volume]{kind: store.Volumes, state: func(v *cloudv1.Volume) string { return v.State }}
	registerList(a, operation{"list-volumes", "volumes", "Volumes"}, "/v1/volumes", volumes)
	registerGet(a, operation{"get-volume", "volumes", "A volume"}, "/v1/volumes/{id}", volumes)
	types := view[cloudv1.VolumeType]{kind: store.VolumeTypes}
	registerList(a, operation{"list-volume-types", "volumes", "Types of volumes"}, "/v1/volume-types", types)
	registerGet(a, operation{"get-volume-type", "volumes", "A type of volumes"}, "/v1/volume-types/{id}", types)
}
