package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"quaymaster.dev/provider/cloudapi"
)

// Kind is a collection of objects of one type.
type Kind[T any] struct {
	// Name is the kind in references, such as load-balancer.
	Name   string
	object func(*T) *cloudapi.Object
}

// The kinds of objects.
var (
	Instances     = Kind[cloudapi.Instance]{"instance", func(v *cloudapi.Instance) *cloudapi.Object { return &v.Object }}
	Regions       = Kind[cloudapi.Region]{"region", func(v *cloudapi.Region) *cloudapi.Object { return &v.Object }}
	Zones         = Kind[cloudapi.Zone]{"zone", func(v *cloudapi.Zone) *cloudapi.Object { return &v.Object }}
	InstanceTypes = Kind[cloudapi.InstanceType]{"instance-type", func(v *cloudapi.InstanceType) *cloudapi.Object { return &v.Object }}
	NodeGroups    = Kind[cloudapi.NodeGroup]{"node-group", func(v *cloudapi.NodeGroup) *cloudapi.Object { return &v.Object }}
	LoadBalancers = Kind[cloudapi.LoadBalancer]{"load-balancer", func(v *cloudapi.LoadBalancer) *cloudapi.Object { return &v.Object }}
	RouteTables   = Kind[cloudapi.RouteTable]{"route-table", func(v *cloudapi.RouteTable) *cloudapi.Object { return &v.Object }}
	Routes        = Kind[cloudapi.Route]{"route", func(v *cloudapi.Route) *cloudapi.Object { return &v.Object }}
	Volumes       = Kind[cloudapi.Volume]{"volume", func(v *cloudapi.Volume) *cloudapi.Object { return &v.Object }}
	VolumeTypes   = Kind[cloudapi.VolumeType]{"volume-type", func(v *cloudapi.VolumeType) *cloudapi.Object { return &v.Object }}
	Jobs          = Kind[cloudapi.Job]{"job", func(v *cloudapi.Job) *cloudapi.Object { return &v.Object }}
)

// NotFoundError says that there is no such object.
type NotFoundError struct{ Kind, ID string }

// Error names kind and id.
func (e *NotFoundError) Error() string { return fmt.Sprintf("no %s %q", e.Kind, e.ID) }

// Object gives what v has in common with all objects.
func (k Kind[T]) Object(v *T) *cloudapi.Object { return k.object(v) }

// Revision is that of the collection: of its last change.
func (k Kind[T]) Revision(tx *Tx) string { return tx.collectionRevision(k.Name) }

// Get reads an object; the error is a *NotFoundError if there is none.
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

// Each calls fn for every object in the order of their ids, until fn returns an error.
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

// Put writes an object and gives it a new revision. An object that is as it was keeps its revision, and Put says false.
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

// Delete removes an object; it is no error if there is none.
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
