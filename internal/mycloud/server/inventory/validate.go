package inventory

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/balancer"
)

func (inv *Inventory) validate() field.ErrorList {
	var errs field.ErrorList
	regions := ids(&errs, "regions", inv.Regions, func(r Region) string { return r.ID })
	zones := ids(&errs, "zones", inv.Zones, func(z Zone) string { return z.ID })
	types := ids(&errs, "instance_types", inv.InstanceTypes, func(t InstanceType) string { return t.ID })
	instances := ids(&errs, "instances", inv.Instances, func(i Instance) string { return i.ID })
	ids(&errs, "route_tables", inv.RouteTables, func(t RouteTable) string { return t.ID })
	volumeTypes := ids(&errs, "volume_types", inv.VolumeTypes, func(t VolumeType) string { return t.ID })
	ids(&errs, "volumes", inv.Volumes, func(v Volume) string { return v.ID })

	for i, z := range inv.Zones {
		known(&errs, field.NewPath("zones").Index(i).Child("region"), z.Region, regions)
	}
	hostnames := map[string]bool{}
	for i, v := range inv.Instances {
		at := field.NewPath("instances").Index(i)
		if hostnames[v.Hostname] {
			errs = append(errs, field.Duplicate(at.Child("hostname"), v.Hostname))
		}
		hostnames[v.Hostname] = true
		errs = append(errs, v.validate(at, types, zones)...)
	}
	for i, p := range inv.AddressPools {
		errs = append(errs, p.validate(field.NewPath("address_pools").Index(i))...)
	}
	for i, t := range inv.VolumeTypes {
		at := field.NewPath("volume_types").Index(i)
		positive(&errs, at.Child("max_size_gib"), t.MaxSizeGiB)
		positive(&errs, at.Child("step_gib"), t.StepGiB)
	}
	for i, v := range inv.Volumes {
		errs = append(errs, inv.validateVolume(field.NewPath("volumes").Index(i), v, volumeTypes, zones, instances)...)
	}
	return errs
}

func (i Instance) validate(at *field.Path, types, zones map[string]bool) field.ErrorList {
	var errs field.ErrorList
	if i.Hostname == "" {
		errs = append(errs, field.Required(at.Child("hostname"), ""))
	}
	known(&errs, at.Child("type"), i.Type, types)
	known(&errs, at.Child("zone"), i.Zone, zones)
	states := []cloudv1.InstanceState{"", cloudv1.InstanceRunning, cloudv1.InstanceStopped}
	if !slices.Contains(states, i.State) {
		errs = append(errs, field.NotSupported(at.Child("state"), i.State, states[1:]))
	}
	addressTypes := []string{
		cloudv1.AddressInternal, cloudv1.AddressExternal, cloudv1.AddressHostname, cloudv1.AddressInternalDNS,
		cloudv1.AddressExternalDNS,
	}
	for n, a := range i.Addresses {
		at := at.Child("addresses").Index(n)
		if !slices.Contains(addressTypes, a.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type, addressTypes))
			continue
		}
		if a.Type != cloudv1.AddressInternal && a.Type != cloudv1.AddressExternal {
			continue
		}
		if problem := balancer.AddressProblem(a.Family, a.Address); problem != "" {
			errs = append(errs, field.Invalid(at.Child("address"), a.Address, problem))
		}
	}
	return errs
}

func (p AddressPool) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Scheme != cloudv1.SchemePublic && p.Scheme != cloudv1.SchemeInternal {
		errs = append(
			errs, field.NotSupported(at.Child("scheme"), p.Scheme, []string{cloudv1.SchemeInternal, cloudv1.SchemePublic}),
		)
	}
	prefix, err := netip.ParsePrefix(p.CIDR)
	if err != nil || prefix.Masked() != prefix {
		errs = append(errs, field.Invalid(at.Child("cidr"), p.CIDR, "must be a CIDR without host bits, such as 192.0.2.0/24"))
	}
	return errs
}

func (inv *Inventory) validateVolume(
	at *field.Path, v Volume, types, zones, instances map[string]bool,
) field.ErrorList {
	var errs field.ErrorList
	known(&errs, at.Child("type"), v.Type, types)
	positive(&errs, at.Child("size_gib"), v.SizeGiB)
	if (v.Zone == "") == (len(v.Zones) == 0) {
		errs = append(errs, field.Invalid(at, v.ID, "must have exactly one of zone and zones"))
	}
	if v.Zone != "" {
		known(&errs, at.Child("zone"), v.Zone, zones)
	}
	for n, z := range v.Zones {
		known(&errs, at.Child("zones").Index(n), z, zones)
		if inv.RegionOf(z) != inv.RegionOf(v.Zones[0]) {
			errs = append(errs, field.Invalid(at.Child("zones").Index(n), z, "must be in the same region as the other zones"))
		}
	}
	if v.AttachedTo != "" {
		known(&errs, at.Child("attached_to"), v.AttachedTo, instances)
	}
	return errs
}

// RegionOf returns a zone's region, or an empty string for an unknown zone.
func (inv *Inventory) RegionOf(zone string) string {
	for _, z := range inv.Zones {
		if z.ID == zone {
			return z.Region
		}
	}
	return ""
}

// Prefixes returns the address pools for the allocator.
func (inv *Inventory) Prefixes() []balancer.AddressPool {
	pools := make([]balancer.AddressPool, 0, len(inv.AddressPools))
	for _, p := range inv.AddressPools {
		prefix := netip.MustParsePrefix(p.CIDR)
		pools = append(pools, balancer.AddressPool{Scheme: p.Scheme, Family: cloudv1.FamilyOf(prefix.Addr()), Prefix: prefix})
	}
	return pools
}

// ids returns the ids of a list and adds errors for missing and duplicate ones.
func ids[T any](errs *field.ErrorList, list string, items []T, id func(T) string) map[string]bool {
	seen := map[string]bool{}
	for i, v := range items {
		at := field.NewPath(list).Index(i).Child("id")
		switch id := id(v); {
		case id == "":
			*errs = append(*errs, field.Required(at, ""))
		case seen[id]:
			*errs = append(*errs, field.Duplicate(at, id))
		default:
			seen[id] = true
		}
	}
	return seen
}

func known(errs *field.ErrorList, at *field.Path, id string, all map[string]bool) {
	if !all[id] {
		*errs = append(*errs, field.NotFound(at, id))
	}
}

func positive(errs *field.ErrorList, at *field.Path, n int) {
	if n < 1 {
		*errs = append(*errs, field.Invalid(at, n, "must be at least 1"))
	}
}
