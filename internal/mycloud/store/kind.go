package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Kind is a collection of objects of one type.
type Kind[T any] struct {
	// Name is the kind in references, such as load-balancer.
	Name   string
	object func(*T) *cloudv1.Object
}

// The kinds of objects.
var (
	Instances     = Kind[cloudv1.Instance]{cloudv1.KindInstance, func(v *cloudv1.Instance) *cloudv1.Object { return &v.Object }}
	Regions       = Kind[cloudv1.Region]{cloudv1.KindRegion, func(v *cloudv1.Region) *cloudv1.Object { return &v.Object }}
	Zones         = Kind[cloudv1.Zone]{cloudv1.KindZone, func(v *cloudv1.Zone) *cloudv1.Object { return &v.Object }}
	InstanceTypes = Kind[cloudv1.InstanceType]{cloudv1.KindInstanceType, func(v *cloudv1.InstanceType) *cloudv1.Object { return &v.Object }}
	NodeGroups    = Kind[cloudv1.NodeGroup]{cloudv1.KindNodeGroup, func(v *cloudv1.NodeGroup) *cloudv1.Object { return &v.Object }}
	LoadBalancers = Kind[cloudv1.LoadBalancer]{cloudv1.KindLoadBalancer, func(v *cloudv1.LoadBalancer) *cloudv1.Object { return &v.Object }}
	RouteTables   = Kind[cloudv1.RouteTable]{cloudv1.KindRouteTable, func(v *cloudv1.RouteTable) *cloudv1.Object { return &v.Object }}
	Routes        = Kind[cloudv1.Route]{cloudv1.KindRoute, func(v *cloudv1.Route) *cloudv1.Object { return &v.Object }}
	Volumes       = Kind[cloudv1.Volume]{cloudv1.KindVolume, func(v *cloudv1.Volume) *cloudv1.Object { return &v.Object }}
	VolumeTypes   = Kind[cloudv1.VolumeType]{cloudv1.KindVolumeType, func(v *cloudv1.VolumeType) *cloudv1.Object { return &v.Object }}
	Jobs          = Kind[cloudv1.Job]{cloudv1.KindJob, func(v *cloudv1.Job) *cloudv1.Object { return &v.Object }}
)

// NotFoundError is the error for an object that does not exist.
type NotFoundError struct{ Kind, ID string }

// Error returns kind and id.
func (e *NotFoundError) Error() string { return fmt.Sprintf("no %s %q", e.Kind, e.ID) }

// Object returns the fields of v that all objects share.
func (k Kind[T]) Object(v *T) *cloudv1.Object { return k.object(v) }

// Revision returns the revision of the collection, which is that of its last change.
func (k Kind[T]) Revision(tx *Tx) string { return tx.collectionRevision(k.Name) }

// Get reads an object. The error is a *NotFoundError if there is none.
func (k Kind[T]) Get(tx *Tx, id string) (*T, error) {
	var raw []byte
	if b := tx.bolt.Bucket([]byte(k.Name)); b != nil {
		raw = b.Get([]byte(id))
	}
	if raw == nil {
		return nil, &NotFoundError{k.Name, id}
	}
	return k.decode(id, raw)
}

// Each calls fn for every object in the order of ids, until fn returns an error.
func (k Kind[T]) Each(tx *Tx, fn func(*T) error) error {
	b := tx.bolt.Bucket([]byte(k.Name))
	if b == nil {
		return nil
	}
	return b.ForEach(func(id, raw []byte) error {
		v, err := k.decode(string(id), raw)
		if err != nil {
			return err
		}
		return fn(v)
	})
}

// Put writes an object with a new revision and returns true. If the object did not change, it keeps its revision and
// Put returns false.
func (k Kind[T]) Put(tx *Tx, v *T) (bool, error) {
	o := k.object(v)
	if o.Tags == nil {
		o.Tags = map[string]string{}
	}
	if b := tx.bolt.Bucket([]byte(k.Name)); b != nil {
		if raw := b.Get([]byte(o.ID)); raw != nil {
			old, err := k.decode(o.ID, raw)
			if err != nil {
				return false, err
			}
			was := k.object(old)
			o.Revision, o.CreatedAt, o.UpdatedAt = was.Revision, was.CreatedAt, was.UpdatedAt
			now, err := json.Marshal(v)
			if err != nil {
				return false, fmt.Errorf("encode %s %s: %w", k.Name, o.ID, err)
			}
			if bytes.Equal(raw, now) {
				return false, nil
			}
		}
	}
	return true, k.write(tx, v)
}

func (k Kind[T]) write(tx *Tx, v *T) error {
	o := k.object(v)
	var err error
	if o.Revision, err = tx.nextRevision(k.Name); err != nil {
		return err
	}
	if o.CreatedAt.IsZero() {
		o.CreatedAt = tx.Now
	}
	o.UpdatedAt = tx.Now
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", k.Name, o.ID, err)
	}
	b, err := tx.bucket(k.Name)
	if err != nil {
		return err
	}
	if err := b.Put([]byte(o.ID), raw); err != nil {
		return fmt.Errorf("write %s %s: %w", k.Name, o.ID, err)
	}
	return nil
}

// Delete removes an object. It is not an error if there is none.
func (k Kind[T]) Delete(tx *Tx, id string) error {
	b, err := tx.bucket(k.Name)
	if err != nil {
		return err
	}
	if b.Get([]byte(id)) == nil {
		return nil
	}
	if err := b.Delete([]byte(id)); err != nil {
		return fmt.Errorf("delete %s %s: %w", k.Name, id, err)
	}
	_, err = tx.nextRevision(k.Name)
	return err
}

func (k Kind[T]) decode(id string, raw []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", k.Name, id, err)
	}
	return v, nil
}
