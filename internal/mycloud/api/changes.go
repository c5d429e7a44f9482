package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// changesBytes is the size after which a response with changes ends. One object may exceed it.
const changesBytes = 4 << 20

// ChangesParams holds the parameters of list-changes.
type ChangesParams struct {
	Since string   `query:"since" required:"true" minLength:"1" doc:"The revision of an earlier response or of any list. If not all changes after it are known, the response is 410."`
	Kinds []string `query:"kinds" enum:"instance,region,zone,instance-type,node-group,load-balancer,route-table,route,volume,volume-type,job,cluster-holder,edge,certificate" doc:"Separated by commas; without it, all kinds."`
	Tag   []string `query:"tag,explode" maxItems:"20" doc:"key:value. Only objects that have all these tags; one that had other tags before is reported as deleted. Jobs have the tags of their targets."`
	Limit int      `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Changes per response."`
	Wait  int      `query:"wait" minimum:"0" maximum:"60" doc:"Maximum time in seconds to hold the response until there is a change."`
}

// feed returns the function that reads the current state of one kind's objects in a transaction.
type feed func(*store.Tx) func(id string) (*cloudv1.Object, any, error)

func feedOf[T any](v view[T]) feed {
	return func(tx *store.Tx) func(string) (*cloudv1.Object, any, error) {
		show := func(*T) error { return nil }
		if v.show != nil {
			show = v.show(tx)
		}
		return func(id string) (*cloudv1.Object, any, error) {
			o, err := v.kind.Get(tx, id)
			if err != nil {
				return nil, nil, err
			}
			return v.kind.Object(o), o, show(o)
		}
	}
}

// feeds returns the kinds whose changes are reported.
func (a *API) feeds() map[string]feed {
	return map[string]feed{
		cloudv1.KindInstance:     feedOf(instances()),
		cloudv1.KindRegion:       feedOf(view[cloudv1.Region]{kind: store.Regions}),
		cloudv1.KindZone:         feedOf(view[cloudv1.Zone]{kind: store.Zones}),
		cloudv1.KindInstanceType: feedOf(view[cloudv1.InstanceType]{kind: store.InstanceTypes}),
		cloudv1.KindNodeGroup:    feedOf(view[cloudv1.NodeGroup]{kind: store.NodeGroups}),
		cloudv1.KindLoadBalancer: feedOf(a.loadBalancers()),
		cloudv1.KindRouteTable:   feedOf(view[cloudv1.RouteTable]{kind: store.RouteTables}),
		cloudv1.KindRoute:        feedOf(view[cloudv1.Route]{kind: store.Routes}),
		cloudv1.KindVolume:       feedOf(view[cloudv1.Volume]{kind: store.Volumes}),
		cloudv1.KindVolumeType:   feedOf(view[cloudv1.VolumeType]{kind: store.VolumeTypes}),
		cloudv1.KindJob:          feedOf(a.jobs()),

		cloudv1.KindClusterHolder: feedOf(view[cloudv1.ClusterHolder]{kind: store.Holders}),
		cloudv1.KindEdge:          feedOf(a.edgeView()),
		cloudv1.KindCertificate:   feedOf(view[cloudv1.Certificate]{kind: store.Certificates}),
	}
}

func (a *API) registerChanges() {
	o := operation{"list-changes", "changes", "What happened to objects after a revision"}
	registerRead(a, o, "/v1/changes", a.waitForChanges, expires,
		means("With wait, the response is held until there is a change or the time is over."))
}

// waitForChanges responds when there is a change or the client's wait is over.
func (a *API) waitForChanges(ctx context.Context, p *ChangesParams) (*Plain[cloudv1.Changes], error) {
	has, err := tagFilter(p.Tag)
	if err != nil {
		return nil, err
	}
	held, cancel := context.WithTimeout(ctx, time.Duration(p.Wait)*time.Second)
	defer cancel()
	since := p.Since
	for {
		changed := a.Store.Changed()
		var found cloudv1.Changes
		err := a.Store.View(func(tx *store.Tx) error {
			r := &changesReader{tx: tx, since: since, feeds: a.feedsOf(p.Kinds), has: has, limit: p.Limit}
			err := r.read()
			found = r.found
			return err
		})
		if errors.Is(err, store.ErrUnknownRevision) {
			return nil, failure.New(http.StatusGone, cloudv1.CodePageTokenExpired,
				"not all changes after revision %q are known; list the objects again", since)
		}
		if err != nil || len(found.Items) > 0 {
			return &Plain[cloudv1.Changes]{Body: found}, err
		}
		since = found.Revision
		select {
		case <-changed:
		case <-held.Done():
			return &Plain[cloudv1.Changes]{Body: found}, nil
		}
	}
}

func (a *API) feedsOf(kinds []string) map[string]feed {
	all := a.feeds()
	if len(kinds) == 0 {
		return all
	}
	some := make(map[string]feed, len(kinds))
	for _, k := range kinds {
		some[k] = all[k]
	}
	return some
}

// changesReader reads one response in one transaction.
type changesReader struct {
	tx    *store.Tx
	since string
	feeds map[string]feed
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
