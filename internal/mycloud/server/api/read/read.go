// Package read reads objects and collections: filtered, page by page from a snapshot, and only if they have changed.
package read

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/etag"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/store"
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

// Reader holds what reads have in common.
type Reader struct {
	API       huma.API
	Store     store.Store
	snapshots *snapshots
}

// New returns a reader that registers its operations with an API.
func New(api huma.API, s store.Store, c clock.PassiveClock) *Reader {
	return &Reader{API: api, Store: s, snapshots: newSnapshots(c, snapshotBytes)}
}

// View defines how a collection is read.
type View[T any] struct {
	Kind store.Kind[T]
	// PageMax limits pages in addition to the client's limit; 0 means no such limit.
	PageMax int
	// Tombstone reports objects that lists contain only with include_deleted; it is nil if there are none.
	Tombstone func(*T) bool
	// Terms select the objects that have all of them.
	Terms []store.Term
	// State returns the value for the filter of that name; it is nil if the objects have no state.
	State func(*T) string
	// Show adds what is observed and not stored; it may be nil. It is called once per transaction.
	Show func(*store.Tx) func(*T) error
}

// Object reads one object.
func Object[T any](r *Reader, v View[T], p GetParams) (*operation.Found[T], error) {
	var found *T
	err := r.Store.View(func(tx *store.Tx) (err error) {
		if found, err = v.Kind.Get(tx, p.ID); err != nil {
			return failure.Absent(err)
		}
		if v.Show != nil {
			return v.Show(tx)(found)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	revision := v.Kind.Object(found).Revision
	if etag.Matches(p.IfNoneMatch, revision, true) {
		return nil, etag.NotModified(revision)
	}
	return &operation.Found[T]{ETag: etag.Of(revision), Body: *found}, nil
}

// Page reads a page of a collection.
func Page[T any](ctx context.Context, r *Reader, v View[T], p ListParams) (*operation.Found[cloudv1.List[T]], error) {
	if p.PageToken != "" {
		l, err := nextPage[T](r.snapshots, v.Kind.Name, p.PageToken, p.Limit)
		if err != nil {
			return nil, err
		}
		return &operation.Found[cloudv1.List[T]]{ETag: etag.Of(l.Revision), Body: l}, nil
	}
	keep, err := filter(v, p)
	if err != nil {
		return nil, err
	}
	var revision string
	items := []T{}
	err = r.Store.View(func(tx *store.Tx) error {
		revision = tx.Revision()
		unchanged := func(since string) bool { return v.Kind.UnchangedSince(tx, since) }
		if p.IfNoneMatch != "" && etag.Any(p.IfNoneMatch, true, unchanged) {
			return etag.NotModified(revision)
		}
		show := func(*T) error { return nil }
		if v.Show != nil {
			show = v.Show(tx)
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
	l, err := firstPage(r.snapshots, access.Of(ctx), v.Kind.Name, items, revision, p.Limit, v.PageMax)
	return &operation.Found[cloudv1.List[T]]{ETag: etag.Of(revision), Body: l}, err
}

// candidates calls fn for the objects that can match the filters of a list, in the order of their ids.
func candidates[T any](tx *store.Tx, v View[T], p ListParams, fn func(*T) error) error {
	terms := slices.Clone(v.Terms)
	for _, pair := range p.Tag {
		key, value, _ := strings.Cut(pair, ":")
		terms = append(terms, store.TagTerm(key, value))
	}
	if len(terms) == 0 && len(p.IDs) == 0 {
		return v.Kind.Each(tx, fn)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(p.IDs)))
	for i, t := range terms {
		// Both lists are sorted, and so is what they have in common.
		found := v.Kind.Find(tx, t)
		if i > 0 || len(p.IDs) > 0 {
			found = slices.DeleteFunc(found, func(id string) bool { return !contains(ids, id) })
		}
		ids = found
	}
	for _, id := range ids {
		o, err := v.Kind.Get(tx, id)
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
func filter[T any](v View[T], p ListParams) (func(*T) bool, error) {
	has, err := TagFilter(p.Tag)
	if err != nil {
		return nil, err
	}
	return func(o *T) bool {
		c := v.Kind.Object(o)
		return has(c.Tags) && (p.IncludeDeleted || v.Tombstone == nil || !v.Tombstone(o)) &&
			(p.Name == "" || c.Name == p.Name) &&
			(len(p.IDs) == 0 || slices.Contains(p.IDs, c.ID)) &&
			(p.State == "" || v.State != nil && v.State(o) == p.State)
	}, nil
}

// TagFilter returns the function that reports whether an object's tags include all of a parameter's key:value pairs.
func TagFilter(pairs []string) (func(map[string]string) bool, error) {
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

// RegisterObject adds the read of one object.
func RegisterObject[T any](r *Reader, o operation.Operation, path string, v View[T]) {
	operation.Read(r.API, o, path, func(_ context.Context, p *GetParams) (*operation.Found[T], error) {
		return Object(r, v, *p)
	}, describe.Conditional)
}

// RegisterList adds the read of a collection.
func RegisterList[T any](r *Reader, o operation.Operation, path string, v View[T], edits ...func(*huma.Operation)) {
	operation.Read(r.API, o, path, func(ctx context.Context, p *ListParams) (*operation.Found[cloudv1.List[T]], error) {
		return Page(ctx, r, v, *p)
	}, append(edits, describe.Conditional, describe.Expires)...)
}
