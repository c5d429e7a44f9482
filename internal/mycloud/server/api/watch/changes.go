package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/store"
)

// changesBytes is the size after which a response with changes ends. One object may exceed it.
const changesBytes = 4 << 20

// changesParams holds the parameters of list-changes.
type changesParams struct {
	Since string   `query:"since" required:"true" minLength:"1" doc:"The revision of an earlier response or of any list. If not all changes after it are known, the response is 410."`
	Kinds []string `query:"kinds" enum:"instance,region,zone,instance-type,node-group,load-balancer,route-table,route,volume,volume-type,job,cluster-holder,edge,certificate" doc:"Separated by commas; without it, all kinds."`
	Tag   []string `query:"tag,explode" maxItems:"20" doc:"key:value. Only objects that have all these tags; one that had other tags before is reported as deleted. Jobs have the tags of their targets."`
	Limit int      `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Changes per response."`
	Wait  int      `query:"wait" minimum:"0" maximum:"60" doc:"Maximum time in seconds to hold the response until there is a change."`
}

// Feed returns the function that reads the current state of one kind's objects in a transaction.
type Feed func(*store.Tx) func(id string) (*cloudv1.Object, any, error)

// FeedOf returns the feed of the objects in a collection.
func FeedOf[T any](v read.View[T]) Feed {
	return func(tx *store.Tx) func(string) (*cloudv1.Object, any, error) {
		show := func(*T) error { return nil }
		if v.Show != nil {
			show = v.Show(tx)
		}
		return func(id string) (*cloudv1.Object, any, error) {
			o, err := v.Kind.Get(tx, id)
			if err != nil {
				return nil, nil, err
			}
			return v.Kind.Object(o), o, show(o)
		}
	}
}

// RegisterChanges adds the feed of changes. It reports the kinds that have a feed.
func RegisterChanges(r *read.Reader, feeds map[string]Feed) {
	o := operation.New("list-changes", "changes", "What happened to objects after a revision")
	held := newHolds(r.Store)
	operation.Read(r.API, o, "/v1/changes",
		func(ctx context.Context, p *changesParams) (*operation.Plain[cloudv1.Changes], error) {
			return waitForChanges(ctx, held, feeds, p)
		}, describe.Expires, describe.Means(fmt.Sprintf("With wait, the response is held until there is a change or the time is over. "+
			"At most %d responses are held for one token or certificate; a request for another one gets 429.", maxHeld)))
}

// waitForChanges responds when there is a change or the client's wait is over.
func waitForChanges(
	ctx context.Context, held *holds, feeds map[string]Feed, p *changesParams,
) (*operation.Plain[cloudv1.Changes], error) {
	has, err := read.TagFilter(p.Tag)
	if err != nil {
		return nil, err
	}
	since := p.Since
	var found cloudv1.Changes
	err = held.until(ctx, p.Wait, func() (bool, error) {
		err := held.store.View(func(tx *store.Tx) error {
			r := &changesReader{tx: tx, since: since, feeds: feedsOf(p.Kinds, feeds), has: has, limit: p.Limit}
			err := r.read()
			found = r.found
			return err
		})
		if err == nil {
			since = found.Revision
		}
		return len(found.Items) > 0, err
	})
	if errors.Is(err, store.ErrUnknownRevision) {
		return nil, failure.New(http.StatusGone, cloudv1.CodePageTokenExpired,
			"not all changes after revision %q are known; list the objects again", since)
	}
	return &operation.Plain[cloudv1.Changes]{Body: found}, err
}

// feedsOf returns the feeds of the kinds that a client asks for; without any, all.
func feedsOf(kinds []string, all map[string]Feed) map[string]Feed {
	if len(kinds) == 0 {
		return all
	}
	some := make(map[string]Feed, len(kinds))
	for _, k := range kinds {
		some[k] = all[k]
	}
	return some
}

// changesReader reads one response in one transaction.
type changesReader struct {
	tx    *store.Tx
	since string
	feeds map[string]Feed
	has   func(tags map[string]string) bool
	limit int

	// after is the number of since.
	after uint64
	found cloudv1.Changes
	bytes int
	get   map[string]func(id string) (*cloudv1.Object, any, error)
}

func (r *changesReader) read() error {
	r.found = cloudv1.Changes{Revision: r.tx.Revision(), Items: []cloudv1.Change{}}
	r.get = make(map[string]func(string) (*cloudv1.Object, any, error), len(r.feeds))
	changes, err := r.tx.Changes(r.since)
	if err != nil {
		return err
	}
	r.after, _ = r.tx.Number(r.since) // since Changes has accepted it, it is one
	for c, err := range changes {
		if err != nil {
			return err
		}
		if r.feeds[c.Kind] == nil {
			continue
		}
		if n := len(r.found.Items); n == r.limit || r.bytes > changesBytes {
			r.found.More = true
			var err error
			r.found.Revision, err = r.tx.RevisionAt(r.found.Items[n-1].Revision)
			return err
		}
		if err := r.add(c); err != nil {
			return err
		}
	}
	return nil
}

// add adds a change, unless it is about an object that does not have the tags and had no other ones before.
func (r *changesReader) add(c store.Change) error {
	item := cloudv1.Change{Kind: c.Kind, ID: c.ID, Revision: c.Revision, Op: cloudv1.ChangeDelete}
	matches := c.Deleted && r.has(c.Tags)
	if !c.Deleted {
		if r.get[c.Kind] == nil {
			r.get[c.Kind] = r.feeds[c.Kind](r.tx)
		}
		o, v, err := r.get[c.Kind](c.ID)
		if err != nil {
			return err
		}
		if matches = r.has(o.Tags); matches {
			raw, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("encode %s %s: %w", c.Kind, c.ID, err)
			}
			item.Op, item.Object = cloudv1.ChangeUpsert, raw
			r.bytes += len(raw)
		}
	}
	if matches || c.Retagged > r.after {
		r.found.Items = append(r.found.Items, item)
	}
	return nil
}
