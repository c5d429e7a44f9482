package api

import (
	"context"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// GetParams are those of the read of one object.
type GetParams struct {
	ID          string `path:"id" maxLength:"255"`
	IfNoneMatch string `header:"If-None-Match" doc:"A revision; the answer is 304 if it is still the object's."`
}

// ListParams are those of the read of a collection.
type ListParams struct {
	Limit          int      `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Objects a page."`
	PageToken      string   `query:"page_token" doc:"The previous page's next_page_token; of the other parameters only limit counts beside it."`
	Tag            []string `query:"tag,explode" maxItems:"20" doc:"key:value; all must hold."`
	IDs            []string `query:"id,explode" maxItems:"100"`
	Name           string   `query:"name"`
	State          string   `query:"state"`
	IncludeDeleted bool     `query:"include_deleted" doc:"Adds tombstones."`
	IfNoneMatch    string   `header:"If-None-Match" doc:"A revision; the answer is 304 if it is still the collection's."`
}

// Found is an object and its ETag.
type Found[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// unless gives way to 304 where the caller knows the revision.
func (f *Found[T]) unless(ifNoneMatch, revision string) (*Found[T], error) {
	if ifNoneMatch != "" && matches(ifNoneMatch, revision, true) {
		return nil, notModified(revision)
	}
	return f, nil
}

// view is how a collection is shown.
type view[T any] struct {
	kind store.Kind[T]
	// pageMax bounds a page where the limit that clients name may be too much; 0 bounds none.
	pageMax int
	// match leaves objects out; nil leaves out none.
	match func(*T) bool
	// state is what the filter of that name looks at; nil where objects have none.
	state func(*T) string
	// show adds what is observed and not stored; nil where nothing is. It is called once a transaction.
	show func(*store.Tx) func(*T) error
}

// getObject reads one object.
func getObject[T any](a *API, v view[T], p GetParams) (*Found[T], error) {
	var found *T
	err := a.Store.View(func(tx *store.Tx) (err error) {
		if found, err = v.kind.Get(tx, p.ID); err != nil {
			return absent(err)
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
		l, err := nextPage[T](a.snapshots, p.PageToken, p.Limit)
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
		revision = v.kind.Revision(tx)
		if p.IfNoneMatch != "" && matches(p.IfNoneMatch, revision, true) {
			return notModified(revision)
		}
		show := func(*T) error { return nil }
		if v.show != nil {
			show = v.show(tx)
		}
		return v.kind.Each(tx, func(o *T) error {
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
	return &Found[cloudv1.List[T]]{ETag: etag(revision), Body: firstPage(a.snapshots, items, revision, p.Limit, v.pageMax)}, nil
}

// filter says which objects a list has.
func filter[T any](v view[T], p ListParams) (func(*T) bool, error) {
	tags := map[string]string{}
	for _, t := range p.Tag {
		key, value, ok := strings.Cut(t, ":")
		if !ok || key == "" {
			return nil, invalidField("query/tag", "must be key:value, not %q", t)
		}
		if other, twice := tags[key]; twice && other != value {
			// No object bears two values of one key.
			return func(*T) bool { return false }, nil
		}
		tags[key] = value
	}
	return func(o *T) bool {
		c := v.kind.Object(o)
		for k, want := range tags {
			if has, ok := c.Tags[k]; !ok || has != want {
				return false
			}
		}
		return (v.match == nil || v.match(o)) &&
			(p.Name == "" || c.Name == p.Name) &&
			(len(p.IDs) == 0 || slices.Contains(p.IDs, c.ID)) &&
			(p.State == "" || v.state != nil && v.state(o) == p.State)
	}, nil
}

// registerGet adds the read of one object.
func registerGet[T any](a *API, o operation, path string, v view[T]) {
	registerRead(a, o, path, func(_ context.Context, p *GetParams) (*Found[T], error) { return getObject(a, v, *p) })
}

// registerList adds the read of a collection.
func registerList[T any](a *API, o operation, path string, v view[T]) {
	registerRead(a, o, path, func(_ context.Context, p *ListParams) (*Found[cloudv1.List[T]], error) {
		return listObjects(a, v, *p)
	})
}
