package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Kind is a collection of objects of one type.
type Kind[T any] struct {
	// Name is the kind in references, such as load-balancer.
	Name   string
	object func(*T) *cloudv1.Object
	// terms returns what an object can be found by besides its tags; it may be nil.
	terms func(*T) []Term
}

// The kinds of objects.
var (
	Instances     = kindOf(cloudv1.KindInstance, instanceTerms)
	Regions       = kindOf[cloudv1.Region](cloudv1.KindRegion, nil)
	Zones         = kindOf[cloudv1.Zone](cloudv1.KindZone, nil)
	InstanceTypes = kindOf[cloudv1.InstanceType](cloudv1.KindInstanceType, nil)
	NodeGroups    = kindOf(cloudv1.KindNodeGroup, nodeGroupTerms)
	LoadBalancers = kindOf(cloudv1.KindLoadBalancer, loadBalancerTerms)
	RouteTables   = kindOf[cloudv1.RouteTable](cloudv1.KindRouteTable, nil)
	Routes        = kindOf(cloudv1.KindRoute, routeTerms)
	Volumes       = kindOf(cloudv1.KindVolume, volumeTerms)
	VolumeTypes   = kindOf[cloudv1.VolumeType](cloudv1.KindVolumeType, nil)
	Jobs          = kindOf[cloudv1.Job](cloudv1.KindJob, nil)
	Holders       = kindOf[cloudv1.ClusterHolder](cloudv1.KindClusterHolder, nil)
	Edges         = kindOf(cloudv1.KindEdge, func(e *cloudv1.Edge) []Term { return []Term{NameTerm(e.Name)} })
	Certificates  = kindOf(cloudv1.KindCertificate, func(c *cloudv1.Certificate) []Term { return []Term{NameTerm(c.Name)} })
	Addresses     = kindOf(cloudv1.KindAddress, addressTerms)
	Tokens        = kindOf(cloudv1.KindToken, tokenTerms)
)

// kindOf returns the kind of the objects of a type.
func kindOf[T any, P interface {
	*T
	Metadata() *cloudv1.Object
}](name string, terms func(*T) []Term) Kind[T] {
	return Kind[T]{name, func(v *T) *cloudv1.Object { return P(v).Metadata() }, terms}
}

// NotFoundError is the error for an object that does not exist.
type NotFoundError struct{ Kind, ID string }

// Error returns kind and id.
func (e *NotFoundError) Error() string { return fmt.Sprintf("no %s %q", e.Kind, e.ID) }

// objectBytes limits the size of an object, and so that of every response with objects.
const objectBytes = 24 << 20

// TooLargeError is the error for an object that exceeds the limit.
type TooLargeError struct {
	Kind  string
	Bytes int
}

// Error returns the size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the %s would take %d bytes; must be at most %d", e.Kind, e.Bytes, objectBytes)
}

// Object returns the fields of v that all objects share.
func (k Kind[T]) Object(v *T) *cloudv1.Object { return k.object(v) }

// UnchangedSince reports whether the collection is the same as it was at a revision of the cloud.
func (k Kind[T]) UnchangedSince(tx *Tx, revision string) bool {
	n, ok := tx.Number(revision)
	return ok && tx.lastChange(k.Name) <= n
}

// Count returns the number of objects.
func (k Kind[T]) Count(tx *Tx) int {
	b := tx.bolt.Bucket([]byte(k.Name))
	if b == nil {
		return 0
	}
	n := 0
	c := b.Cursor()
	// The statistics of the bucket lack what the transaction has written.
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}

// Has reports whether an object exists.
func (k Kind[T]) Has(tx *Tx, id string) bool {
	b := tx.bolt.Bucket([]byte(k.Name))
	return b != nil && b.Get([]byte(id)) != nil
}

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
	var old *T
	if b := tx.bolt.Bucket([]byte(k.Name)); b != nil {
		if raw := b.Get([]byte(o.ID)); raw != nil {
			var err error
			if old, err = k.decode(o.ID, raw); err != nil {
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
	return true, k.write(tx, v, old)
}

// write writes an object that was different, or did not exist if old is nil.
func (k Kind[T]) write(tx *Tx, v, old *T) error {
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
	if len(raw) > objectBytes {
		return &TooLargeError{k.Name, len(raw)}
	}
	b, err := tx.bucket(k.Name)
	if err != nil {
		return err
	}
	if err := b.Put([]byte(o.ID), raw); err != nil {
		return fmt.Errorf("write %s %s: %w", k.Name, o.ID, err)
	}
	if err := k.index(tx, o.ID, old, v); err != nil {
		return err
	}
	var was *cloudv1.Object
	if old != nil {
		was = k.object(old)
	}
	return k.record(tx, Change{Revision: o.Revision, Kind: k.Name, ID: o.ID}, was, o.Tags)
}

// record adds a change to the log. tags are the object's tags after the change.
func (k Kind[T]) record(tx *Tx, c Change, was *cloudv1.Object, tags map[string]string) error {
	if tx.Rehearsal {
		return nil
	}
	if was == nil {
		return tx.record(c, "")
	}
	var err error
	if maps.Equal(was.Tags, tags) {
		c.Retagged, err = tx.retagged(was.Revision)
	} else {
		c.Retagged, err = strconv.ParseUint(c.Revision, 10, 64)
	}
	if err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	return tx.record(c, was.Revision)
}

// Delete removes an object. It is not an error if there is none.
func (k Kind[T]) Delete(tx *Tx, id string) error {
	b, err := tx.bucket(k.Name)
	if err != nil {
		return err
	}
	raw := b.Get([]byte(id))
	if raw == nil {
		return nil
	}
	old, err := k.decode(id, raw)
	if err != nil {
		return err
	}
	if err := b.Delete([]byte(id)); err != nil {
		return fmt.Errorf("delete %s %s: %w", k.Name, id, err)
	}
	if err := k.index(tx, id, old, nil); err != nil {
		return err
	}
	revision, err := tx.nextRevision(k.Name)
	if err != nil {
		return err
	}
	was := k.object(old)
	return k.record(tx, Change{Revision: revision, Kind: k.Name, ID: id, Deleted: true, Tags: was.Tags}, was, was.Tags)
}

func (k Kind[T]) decode(id string, raw []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", k.Name, id, err)
	}
	return v, nil
}
