package inventory

import (
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Seed adds the objects that were never added from an inventory before, so that a restart neither reverts changed
// objects nor recreates deleted ones.
func (inv *Inventory) Seed(tx *store.Tx) error {
	s := seeder{tx: tx}
	for _, v := range inv.Regions {
		seed(&s, store.Regions, &cloudv1.Region{Object: object(v.ID, nil), State: cloudv1.PlaceAvailable})
	}
	for _, v := range inv.Zones {
		seed(&s, store.Zones, &cloudv1.Zone{Object: object(v.ID, nil), Region: v.Region, State: cloudv1.PlaceAvailable})
	}
	for _, v := range inv.InstanceTypes {
		seed(&s, store.InstanceTypes, &cloudv1.InstanceType{Object: object(v.ID, nil), CPUs: v.CPUs, MemoryMiB: v.MemoryMiB})
	}
	for _, v := range inv.Instances {
		s.hostnameFree(v)
		seed(&s, store.Instances, inv.instance(v))
	}
	for _, v := range inv.RouteTables {
		seed(&s, store.RouteTables, &cloudv1.RouteTable{Object: object(v.ID, nil), VPCID: v.VPCID})
	}
	for _, v := range inv.VolumeTypes {
		seed(&s, store.VolumeTypes, &cloudv1.VolumeType{
			Object: object(v.ID, nil), MaxSizeGiB: v.MaxSizeGiB, StepGiB: v.StepGiB, OnlineExpansion: v.OnlineExpansion,
		})
	}
	for _, v := range inv.Volumes {
		seed(&s, store.Volumes, inv.volume(v))
	}
	for _, p := range inv.Prefixes() {
		s.addressPool(p.Key())
	}
	return s.err
}

func (inv *Inventory) instance(v Instance) *cloudv1.Instance {
	i := &cloudv1.Instance{
		Object: object(v.ID, v.Tags), Hostname: v.Hostname, State: v.State, Type: v.Type,
		Zone: v.Zone, Region: inv.RegionOf(v.Zone), Addresses: append([]cloudv1.InstanceAddress{}, v.Addresses...),
	}
	i.Name = v.Hostname
	if i.State == "" {
		i.State = cloudv1.InstanceRunning
	}
	return i
}

func (inv *Inventory) volume(v Volume) *cloudv1.Volume {
	out := &cloudv1.Volume{
		Object: object(v.ID, v.Tags), Zone: v.Zone, Zones: v.Zones, Type: v.Type,
		SizeGiB: v.SizeGiB, State: cloudv1.VolumeAvailable, AttachedTo: v.AttachedTo,
	}
	zone := v.Zone
	if len(v.Zones) > 0 {
		zone = v.Zones[0]
	}
	out.Region = inv.RegionOf(zone)
	if v.AttachedTo != "" {
		out.State = cloudv1.VolumeAttached
	}
	return out
}

func object(id string, tags map[string]string) cloudv1.Object {
	return cloudv1.Object{ID: id, Name: id, Tags: tags}
}

// seeder keeps the first error.
type seeder struct {
	tx  *store.Tx
	err error
}

// addressPool adds a pool after those that there are. Pools are never removed, since their addresses may be in use.
func (s *seeder) addressPool(key string) {
	if s.err != nil || store.AddressPools.Get(s.tx, key) != "" {
		return
	}
	all, err := store.AddressPools.All(s.tx)
	if err != nil {
		s.err = err
		return
	}
	s.err = store.AddressPools.Set(s.tx, key, fmt.Sprintf("%06d", len(all)))
}

// hostnameFree checks that no other instance has the hostname of a new one. A machine that is rebuilt under its old name
// is a new instance, and the old one must be deleted first.
func (s *seeder) hostnameFree(v Instance) {
	if s.err != nil || store.Seeded.Get(s.tx, store.Instances.Name+"/"+v.ID) != "" {
		return
	}
	for _, id := range store.Instances.Find(s.tx, store.NameTerm(v.Hostname)) {
		if id != v.ID {
			s.err = fmt.Errorf("instance %q: hostname %q is taken by instance %q; delete that instance first",
				v.ID, v.Hostname, id)
		}
	}
}

func seed[T any](s *seeder, k store.Kind[T], v *T) {
	key := k.Name + "/" + k.Object(v).ID
	if s.err != nil || store.Seeded.Get(s.tx, key) != "" {
		return
	}
	if _, s.err = k.Put(s.tx, v); s.err == nil {
		s.err = store.Seeded.Set(s.tx, key, k.Object(v).Revision)
	}
}
