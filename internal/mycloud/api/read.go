package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// GetParams holds the parameters of reads of one object.
type GetParams struct {
	ID          string `path:"id" maxLength:"255" doc:"The id of the object."`
	IfNoneMatch string `header:"If-None-Match" doc:"A revision. The response is 304 if the object still has it."`
}

// ListParams holds the parameters of reads of a collection.
type ListParams struct {
	Limit          int      `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Objects per page."`
	PageToken      string   `query:"page_token" doc:"The previous page's next_page_token. All other parameters except limit are ignored."`
	Tag            []string `query:"tag,explode" maxItems:"20" doc:"key:value. Objects must have all these tags."`
	IDs            []string `query:"id,explode" maxItems:"100" doc:"Objects must have one of these ids."`
	Name           string   `query:"name" doc:"Objects must have this name."`
	State          string   `query:"state" doc:"Objects must have this state."`
	IncludeDeleted bool     `query:"include_deleted" doc:"Adds tombstones."`
	IfNoneMatch    string   `header:"If-None-Match" doc:"A revision. The response is 304 if the collection still has it."`
}

// Found is an object and its ETag.
type Found[T any] struct {
	ETag string `header:"ETag" doc:"The revision of the object or the list."`
	Body T
}

// unless returns f, or 304 if the caller has the revision.
func (f *Found[T]) unless(ifNoneMatch, revision string) (*Found[T], error) {
	if ifNoneMatch != "" && matches(ifNoneMatch, revision, true) {
		return nil, notModified(revision)
	}
	return f, nil
}

// view defines how a collection is read.
type view[T any] struct {
	kind store.Kind[T]
	// pageMax limits pages in addition to the client's limit; 0 means no such limit.
	pageMax int
	// match selects objects; if nil, all.
	match func(*T) bool
	// terms select the objects that have all of them.
	terms []store.Term
	// state returns the value for the filter of that name; it is nil if the objects have no state.
	state func(*T) string
	// show adds what is observed and not stored; it may be nil. It is called once per transaction.
	show func(*store.Tx) func(*T) error
}

// getObject reads one object.
func getObject[T any](a *API, v view[T], p GetParams) (*Found[T], error) {
	var found *T
	err := a.Store.View(func(tx *store.Tx) (err error) {
		if found, err = v.kind.Get(tx, p.ID); err != nil {
			return failure.Absent(err)
		}
		if v.show != nil {
			return v.show(tx)(found)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	revision := v.kind.Object(found).Revision
	return (&Found[T]{ETag: etag(revision), Body: *found}).unless(p.IfNoneMatch, revision)
}

// listObjects reads a page of a collection.
func listObjects[T any](a *API, v view[T], p ListParams) (*Found[cloudv1.List[T]], error) {
	if p.PageToken != "" {
		l, err := nextPage[T](a.snapshots, v.kind.Name, p.PageToken, p.Limit)
		if err != nil {
			return nil, err
		}
		return &Found[cloudv1.List[T]]{ETag: etag(l.Revision), Body: l}, nil
	}
	keep, err := filter(v, p)
	if err != nil {
		return nil, err
	}
	var revision string
	items := []T{}
	err = a.Store.View(func(tx *store.Tx) error {
		revision = tx.Revision()
		unchanged := func(since string) bool { return v.kind.UnchangedSince(tx, since) }
		if p.IfNoneMatch != "" && anyTag(p.IfNoneMatch, true, unchanged) {
			return notModified(revision)
		}
		show := func(*T) error { return nil }
		if v.show != nil {
			show = v.show(tx)
		}
		return candidates(tx, v, p, func(o *T) error {
			if !keep(o) {
				return nil
			}
			if err := show(o); err != nil {
				return err
			}
			items = append(items, *o)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	l, err := firstPage(a.snapshots, v.kind.Name, items, revision, p.Limit, v.pageMax)
	return &Found[cloudv1.List[T]]{ETag: etag(revision), Body: l}, err
}

// candidates calls fn for the objects that can match the filters of a list, in the order of their ids.
func candidates[T any](tx *store.Tx, v view[T], p ListParams, fn func(*T) error) error {
	terms := slices.Clone(v.terms)
	for _, pair := range p.Tag {
		key, value, _ := strings.Cut(pair, ":")
		terms = append(terms, store.TagTerm(key, value))
	}
	if len(terms) == 0 && len(p.IDs) == 0 {
		return v.kind.Each(tx, fn)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(p.IDs)))
	for i, t := range terms {
		// Both lists are sorted, and so is what they have in common.
		found := v.kind.Find(tx, t)
		if i > 0 || len(p.IDs) > 0 {
			found = slices.DeleteFunc(found, func(id string) bool { return !contains(ids, id) })
		}
		ids = found
	}
	for _, id := range ids {
		o, err := v.kind.Get(tx, id)
		if _, none := errors.AsType[*store.NotFoundError](err); none {
			continue
		}
		if err != nil {
			return err
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

// contains reports whether a sorted list contains an id.
func contains(sorted []string, id string) bool {
	_, found := slices.BinarySearch(sorted, id)
	return found
}

// filter returns the function that selects the objects of a list.
func filter[T any](v view[T], p ListParams) (func(*T) bool, error) {
	has, err := tagFilter(p.Tag)
	if err != nil {
		return nil, err
	}
	return func(o *T) bool {
		c := v.kind.Object(o)
		return has(c.Tags) && (v.match == nil || v.match(o)) &&
			(p.Name == "" || c.Name == p.Name) &&
			(len(p.IDs) == 0 || slices.Contains(p.IDs, c.ID)) &&
			(p.State == "" || v.state != nil && v.state(o) == p.State)
	}, nil
}

// tagFilter returns the function that reports whether an object's tags include all of a parameter's key:value pairs.
func tagFilter(pairs []string) (func(map[string]string) bool, error) {
	for _, pair := range pairs {
		if key, _, ok := strings.Cut(pair, ":"); !ok || key == "" {
			return nil, failure.InvalidField("query/tag", "must be key:value, not %q", pair)
		}
	}
	return func(tags map[string]string) bool {
		for _, pair := range pairs {
			key, want, _ := strings.Cut(pair, ":")
			if has, ok := tags[key]; !ok || has != want {
				return false
			}
		}
		return true
	}, nil
}

// registerGet adds the read of one object.
func registerGet[T any](a *API, o operation, path string, v view[T]) {
	registerRead(a, o, path, func(_ context.Context, p *GetParams) (*Found[T], error) { return getObject(a, v, *p) },
		conditional)
}

// registerList adds the read of a collection.
func registerList[T any](a *API, o operation, path string, v view[T], edits ...func(*huma.Operation)) {
	registerRead(a, o, path, func(_ context.Context, p *ListParams) (*Found[cloudv1.List[T]], error) {
		return listObjects(a, v, *p)
	}, append(edits, conditional, expires)...)
}

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
