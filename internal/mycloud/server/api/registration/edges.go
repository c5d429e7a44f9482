// Package registration serves edges, the machines that carry the traffic of load balancers: how they register, report and leave.
package registration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// edgesMax limits the number of edges, each of which costs memory.
	edgesMax = 256
	// heartbeatMax is enough for the health of all members that a heartbeat may report.
	heartbeatMax = 32 << 20
)

// Edges serves the operations of edges.
type Edges struct {
	read   *read.Reader
	write  *write.Writer
	known  *edges.Registry
	tokens *access.Tokens
	logger *slog.Logger
	// shared is true if other servers may have the same state.
	shared atomic.Bool
	// untold has the edges whose details other servers may lack.
	untold sync.Map
}

// New returns the edges of a cloud. What they report is kept in a registry.
func New(r *read.Reader, w *write.Writer, known *edges.Registry, tokens *access.Tokens, l *slog.Logger) *Edges {
	return &Edges{read: r, write: w, known: known, tokens: tokens, logger: l}
}

// registerEdgeParams holds the parameters of register-edge.
type registerEdgeParams struct {
	write.Params
	Body cloudv1.EdgeSpec
}

// Resolve validates what the schema cannot express.
func (p *registerEdgeParams) Resolve(huma.Context) []error {
	problems := write.ValidateTags(p.Body.Tags)
	for i, address := range p.Body.Addresses {
		if _, err := netip.ParseAddr(address); err != nil {
			problems = append(problems, cloudv1.ProblemField{
				Pointer: fmt.Sprintf("/addresses/%d", i), Detail: fmt.Sprintf("must be an IP address, not %q", address),
			})
		}
	}
	return failure.Fields(problems)
}

// patchEdgeParams holds the parameters of patch-edge.
type patchEdgeParams struct {
	write.ObjectParams
	Body cloudv1.EdgePatch
}

// heartbeatParams holds the parameters of heartbeat-edge.
type heartbeatParams struct {
	ID   string `path:"id" maxLength:"255" doc:"The id of the edge."`
	Body heartbeat
}

// edgeAnswer is the response to a write of an edge.
type edgeAnswer = operation.Answer[cloudv1.Edge]

// Register adds the operations of edges.
func (a *Edges) Register() {
	const tag, path = "edges", "/v1/edges"
	read.RegisterList(a.read, operation.New("list-edges", tag, "The machines that carry the traffic of load balancers"), path, a.View())
	read.RegisterObject(a.read, operation.New("get-edge", tag, "An edge"), path+"/{id}", a.View())
	operation.Write(a.read.API, operation.New("register-edge", tag, "Registers an edge"),
		http.MethodPost, path, []int{http.StatusOK, http.StatusCreated}, a.registerEdge,
		describe.Means("Creates the edge with the name, or updates it: an edge that registers again keeps its id."))
	operation.Question(a.read.API, operation.New("heartbeat-edge", tag, "Reports the state of an edge"),
		path+"/{id}:heartbeat", a.heartbeat,
		describe.Means("An edge sends it at the interval of the response, and at once when it has applied something."),
		func(op *huma.Operation) {
			// The library would decode it twice, once into maps: with the members of a large edge, that takes seconds.
			op.MaxBodyBytes, op.SkipValidateBody = heartbeatMax, true
			// The largest body must also arrive over 10 Mbit/s.
			op.BodyReadTimeout = 30 * time.Second
		})
	operation.Write(a.read.API, operation.New("patch-edge", tag, "Begins or ends a drain"),
		http.MethodPatch, path+"/{id}", []int{http.StatusOK}, a.patchEdge, describe.TakesMergePatch[cloudv1.EdgePatch](a.read.API),
		describe.Means("A draining edge carries the traffic that still arrives, until it leaves."))
	operation.Write(a.read.API, operation.New("delete-edge", tag, "Deletes an edge"),
		http.MethodDelete, path+"/{id}", []int{http.StatusOK}, a.deleteEdge,
		describe.Means("An edge that still runs registers again."))
}

// View defines how edges are read.
func (a *Edges) View() read.View[cloudv1.Edge] {
	return read.View[cloudv1.Edge]{
		Kind:  store.Edges,
		State: func(e *cloudv1.Edge) string { return e.State },
		Show: func(*store.Tx) func(*cloudv1.Edge) error {
			return func(e *cloudv1.Edge) error {
				a.showEdge(e)
				return nil
			}
		},
	}
}

// showEdge adds what the edge has reported.
func (a *Edges) showEdge(e *cloudv1.Edge) {
	e.Faults = []cloudv1.EdgeFault{}
	reported := a.known.Get(e.ID)
	if reported == nil || reported.HeartbeatAt.IsZero() {
		return
	}
	at := reported.HeartbeatAt.UTC().Truncate(time.Millisecond)
	e.HeartbeatAt, e.AppliedRevision = &at, strconv.FormatUint(reported.Applied, 10)
	e.Faults = append(e.Faults, reported.Faults...)
}

func (a *Edges) registerEdge(ctx context.Context, p *registerEdgeParams) (*edgeAnswer, error) {
	if p.Fence != "" {
		// An edge reads the UIDs of clusters, and a high epoch would lock out their leaders.
		return nil, failure.New(http.StatusForbidden, cloudv1.CodeForbidden, "an edge leads no cluster; omit the header %s",
			cloudv1.HeaderFence)
	}
	answer, err := write.Change(a.write, p.Params, func(tx *store.Tx) (*edgeAnswer, error) {
		if err := a.checkEdge(ctx, tx, p.Body.Name); err != nil {
			return nil, err
		}
		if err := checkAddresses(ctx, tx, p.Body.Addresses); err != nil {
			return nil, err
		}
		known, err := store.Edges.Having(tx, store.NameTerm(p.Body.Name))
		if err != nil {
			return nil, err
		}
		if len(known) == 0 {
			return a.createEdge(ctx, tx, p)
		}
		e := known[0]
		if err := p.Check(store.Edges.Name, &e.Object); err != nil {
			return nil, err
		}
		if err := a.keepToken(ctx, tx, e, p.Body.Token); err != nil {
			return nil, err
		}
		// An operator's drain lasts until an operator ends it, also if the machine restarts.
		draining := e.Draining || p.Body.Draining
		e.Tags, e.EdgeFields = p.Body.Tags, p.Body.EdgeFields
		e.Draining = draining
		if e.State != cloudv1.EdgeOffline {
			e.State = onlineState(e)
		}
		if _, err := store.Edges.Put(tx, e); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Edges, e), nil
	})
	if err != nil || p.DryRun {
		return answer, err
	}
	a.known.Put(&answer.Body, true)
	a.showEdge(&answer.Body)
	return answer, nil
}

// checkAddresses rejects addresses of instances as those of an edge with the token that edges share: members must not have
// addresses of edges, so that it could take the members of others away.
func checkAddresses(ctx context.Context, tx *store.Tx, addresses []string) error {
	if access.Of(ctx).Role != access.Registration {
		return nil
	}
	for i, text := range addresses {
		// It was validated.
		address, _ := netip.ParseAddr(text)
		for _, id := range store.Instances.Find(tx, store.AddressTerm(address.String())) {
			return failure.InvalidField(fmt.Sprintf("/addresses/%d", i),
				"must not be the address of an instance, as that of %s is; an edge on an instance needs a token for its name", id)
		}
	}
	return nil
}

func (a *Edges) createEdge(ctx context.Context, tx *store.Tx, p *registerEdgeParams) (*edgeAnswer, error) {
	e := &cloudv1.Edge{
		Object:     cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags},
		EdgeFields: p.Body.EdgeFields, Faults: []cloudv1.EdgeFault{},
	}
	if err := p.CheckTags(store.Edges.Name, &e.Object); err != nil {
		return nil, err
	}
	if store.Edges.Count(tx) >= edgesMax {
		return nil, failure.New(http.StatusForbidden, cloudv1.CodeQuotaExceeded,
			"the cloud has %d edges, which is the maximum; delete those that no longer exist", edgesMax)
	}
	e.State = onlineState(e)
	e.ID = write.NewID("edge-")
	if _, err := store.Edges.Put(tx, e); err != nil {
		return nil, err
	}
	if err := a.keepToken(ctx, tx, e, p.Body.Token); err != nil {
		return nil, err
	}
	if p.DryRun {
		e.ID = ""
	}
	return write.Done(http.StatusCreated, store.Edges, e), nil
}

// onlineState returns the state of an edge that is not offline.
func onlineState(e *cloudv1.Edge) string {
	if e.Draining {
		return cloudv1.EdgeDraining
	}
	return cloudv1.EdgeActive
}

// heartbeat stores nothing, except that an edge is back or has news about members.
func (a *Edges) heartbeat(ctx context.Context, p *heartbeatParams) (*operation.Plain[cloudv1.HeartbeatReply], error) {
	var applied uint64
	offline := false
	err := a.read.Store.View(func(tx *store.Tx) error {
		e, err := store.Edges.Get(tx, p.ID)
		if err != nil {
			return failure.Absent(err)
		}
		if err := a.checkEdge(ctx, tx, e.Name); err != nil {
			return err
		}
		offline = e.State == cloudv1.EdgeOffline
		var known bool
		if applied, known = tx.Number(p.Body.AppliedRevision); !known {
			// The edge has applied the state of another cloud, or of this one before it was restored from a backup.
			applied = 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	complete, news := a.known.Report(p.ID, applied, &p.Body.Heartbeat)
	// The next heartbeat may go to a server that knows only what others have reported.
	told := a.tell(ctx, p.ID, p.Body.Health != nil || p.Body.Counters != nil || p.Body.Announced != nil)
	if offline || news {
		if err := a.noteEdge(a.read.Store, p.ID, true, news); err != nil {
			return nil, err
		}
	}
	return &operation.Plain[cloudv1.HeartbeatReply]{Body: cloudv1.HeartbeatReply{
		Complete: complete && told, IntervalMS: a.known.Interval().Milliseconds(),
	}}, nil
}

// noteEdge stores whether an edge has been heard of lately, and when it had news about members.
func (a *Edges) noteEdge(st store.Store, id string, online, news bool) error {
	var e *cloudv1.Edge
	err := st.Update(func(tx *store.Tx) (err error) {
		if e, err = store.Edges.Get(tx, id); err != nil {
			return failure.Absent(err)
		}
		if e.State = cloudv1.EdgeOffline; online {
			e.State = onlineState(e)
		}
		if news {
			at := tx.Now
			e.HealthChangedAt = &at
		}
		_, err = store.Edges.Put(tx, e)
		return err
	})
	if err == nil {
		a.known.Put(e, online)
	}
	return err
}

func (a *Edges) patchEdge(_ context.Context, p *patchEdgeParams) (*edgeAnswer, error) {
	return a.changeEdge(p.ObjectParams, func(tx *store.Tx, e *cloudv1.Edge) error {
		if p.Body.Draining != nil {
			e.Draining = *p.Body.Draining
		}
		if e.State != cloudv1.EdgeOffline {
			e.State = onlineState(e)
		}
		_, err := store.Edges.Put(tx, e)
		return err
	}, func(e *cloudv1.Edge) { a.known.Put(e, false) })
}

func (a *Edges) deleteEdge(ctx context.Context, p *write.ObjectParams) (*edgeAnswer, error) {
	return a.changeEdge(*p, func(tx *store.Tx, e *cloudv1.Edge) error {
		hash, err := tokenOf(tx, e.ID)
		if err != nil {
			return err
		}
		if err := store.EdgeTokens.Delete(tx, hash); err != nil {
			return err
		}
		return store.Edges.Delete(tx, e.ID)
	}, func(e *cloudv1.Edge) {
		a.known.Drop(e.ID)
		a.forget(ctx, e.ID)
	})
}

// changeEdge changes a stored edge, and then what is in memory of it.
func (a *Edges) changeEdge(
	p write.ObjectParams, edit func(*store.Tx, *cloudv1.Edge) error, committed func(*cloudv1.Edge),
) (*edgeAnswer, error) {
	answer, err := write.Change(a.write, p.Params, func(tx *store.Tx) (*edgeAnswer, error) {
		e, err := write.Checked(tx, store.Edges, p)
		if err != nil {
			return nil, err
		}
		if err := edit(tx, e); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Edges, e), nil
	})
	if err != nil {
		return nil, err
	}
	a.showEdge(&answer.Body)
	if !p.DryRun {
		committed(&answer.Body)
	}
	return answer, nil
}

// Load reads the edges that registered with an earlier server. They have time for a heartbeat before they are
// offline.
func (a *Edges) Load() error {
	return a.read.Store.View(func(tx *store.Tx) error {
		return store.Edges.Each(tx, func(e *cloudv1.Edge) error {
			a.known.Put(e, false)
			return nil
		})
	})
}

// Watch marks edges as offline that are not heard of any more, until ctx is done.
func (a *Edges) Watch(ctx context.Context, st store.Store) {
	for {
		changed := a.known.Changed()
		silent, next := a.known.Silent()
		for _, id := range silent {
			if err := a.noteEdge(st, id, false, false); err != nil {
				a.logger.ErrorContext(ctx, "Could not mark an edge as offline", "edge", id, "error", err)
				next = a.known.Interval()
			}
		}
		if !a.known.Wait(ctx, next, changed) {
			return
		}
	}
}
