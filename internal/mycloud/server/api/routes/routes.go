// Package routes serves tables of routes to the instances of a network.
package routes

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/store"
)

// listRoutesParams holds the parameters of list-routes.
type listRoutesParams struct {
	read.ListParams
	Table string `path:"id" maxLength:"255" doc:"The id of the route table."`
}

// batchRoutesParams holds the parameters of batch-routes.
type batchRoutesParams struct {
	write.PostParams
	Table string `path:"id" maxLength:"255" doc:"The id of the route table."`
	Body  cloudv1.RoutesBatch
}

// routesAnswer is the response to a batch of routes.
type routesAnswer = operation.Answer[cloudv1.RoutesBatchResult]

// api serves the operations.
type api struct {
	read  *read.Reader
	write *write.Writer
}

// Register adds the operations of routes.
func Register(r *read.Reader, w *write.Writer) {
	a := &api{read: r, write: w}
	tables := read.View[cloudv1.RouteTable]{Kind: store.RouteTables}
	const tag, path = "routes", "/v1/route-tables"
	read.RegisterList(r, operation.New("list-route-tables", tag, "Route tables"), path, tables)
	read.RegisterObject(r, operation.New("get-route-table", tag, "A route table"), path+"/{id}", tables)
	operation.Read(r.API, operation.New("list-routes", tag, "Routes of a table"), path+"/{id}/routes", a.listRoutes,
		describe.Conditional, describe.Expires)
	operation.Write(r.API, operation.New("batch-routes", tag, "Changes many routes of a table"),
		http.MethodPost, path+"/{id}/routes:batch", []int{http.StatusOK}, a.batchRoutes,
		describe.Means("Each operation succeeds or fails independently. The response has the results of upserts first, in order."))
}

func (a *api) listRoutes(ctx context.Context, p *listRoutesParams) (*operation.Found[cloudv1.List[cloudv1.Route]], error) {
	err := a.read.Store.View(func(tx *store.Tx) error {
		_, err := store.RouteTables.Get(tx, p.Table)
		return failure.Absent(err)
	})
	if err != nil {
		return nil, err
	}
	return read.Page(ctx, a.read, read.View[cloudv1.Route]{
		Kind:  store.Routes,
		Terms: []store.Term{store.ReferenceTerm(store.RouteTables.Name, p.Table)},
		State: func(r *cloudv1.Route) string { return r.State },
	}, p.ListParams)
}

func (a *api) batchRoutes(_ context.Context, p *batchRoutesParams) (*routesAnswer, error) {
	return write.Post(a.write, p.PostParams, "batch routes "+p.Table, p.Body, func(tx *store.Tx) (*routesAnswer, error) {
		if _, err := store.RouteTables.Get(tx, p.Table); err != nil {
			return nil, err
		}
		if _, err := p.Tags(); err != nil {
			return nil, err
		}
		b := &routesBatch{write: a.write, tx: tx, params: p, routes: map[string]*cloudv1.Route{}}
		routes, err := store.Routes.Having(tx, store.ReferenceTerm(store.RouteTables.Name, p.Table))
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			b.routes[r.Destination] = r
		}
		results := make([]cloudv1.RouteResult, 0, len(p.Body.Upsert)+len(p.Body.Remove))
		for _, s := range p.Body.Upsert {
			status, route, err := b.upsert(s)
			res, err := result(cloudv1.RouteUpsert, s.Destination, status, route, err)
			if err != nil {
				return nil, err
			}
			results = append(results, res)
		}
		for _, r := range p.Body.Remove {
			res, err := result(cloudv1.RouteRemove, r.Destination, http.StatusOK, nil, b.remove(r))
			if err != nil {
				return nil, err
			}
			results = append(results, res)
		}
		return &routesAnswer{Status: http.StatusOK, Body: cloudv1.RoutesBatchResult{Results: results}}, nil
	})
}

// result returns the result of one operation. An error other than a failure of the operation fails the whole batch.
func result(op, destination string, status int, r *cloudv1.Route, err error) (cloudv1.RouteResult, error) {
	res := cloudv1.RouteResult{Op: op, Destination: destination, Status: status, Route: r}
	problem, err := failure.OfOperation(err)
	if problem != nil {
		res.Status, res.Route, res.Error = problem.Status, nil, problem
	}
	return res, err
}

// routesBatch is a batch in progress.
type routesBatch struct {
	write  *write.Writer
	tx     *store.Tx
	params *batchRoutesParams
	// routes has the routes of the table by destination.
	routes map[string]*cloudv1.Route
}

func (b *routesBatch) upsert(s cloudv1.RouteSpec) (int, *cloudv1.Route, error) {
	if err := b.validate(s); err != nil {
		return 0, nil, err
	}
	r, exists := b.routes[s.Destination]
	status := http.StatusOK
	if !exists {
		if err := write.Quota(b.write, b.tx, store.Routes, nil); err != nil {
			return 0, nil, err
		}
		status = http.StatusCreated
		r = &cloudv1.Route{
			Object:       cloudv1.Object{ID: write.NewID("rte-"), Name: s.Destination},
			RouteTableID: b.params.Table, Destination: s.Destination,
		}
	} else if !b.owns(r, s) {
		return 0, nil, failure.New(http.StatusConflict, cloudv1.CodeDestinationTaken,
			"destination %q is taken by route %s, which has the tags %v",
			s.Destination, r.ID, r.Tags).On(store.Routes.Name, r.ID)
	}
	r.Tags, r.NextHop, r.State = s.Tags, s.NextHop, cloudv1.RouteActive
	if !exists {
		if err := b.params.CheckTags(store.Routes.Name, &r.Object); err != nil {
			return 0, nil, err
		}
	}
	if _, err := store.Routes.Put(b.tx, r); err != nil {
		return 0, nil, err
	}
	b.routes[s.Destination] = r
	return status, r, nil
}

// owns reports whether the author of the batch may change a route: it must have the tags of Mycloud-If-Tags or, without
// that header, exactly the tags that the batch writes.
func (b *routesBatch) owns(r *cloudv1.Route, s cloudv1.RouteSpec) bool {
	if b.params.IfTags != "" {
		return b.params.CheckTags(store.Routes.Name, &r.Object) == nil
	}
	if len(r.Tags) != len(s.Tags) {
		return false
	}
	for k, v := range s.Tags {
		if has, ok := r.Tags[k]; !ok || has != v {
			return false
		}
	}
	return true
}

func (b *routesBatch) validate(s cloudv1.RouteSpec) error {
	var problems []cloudv1.ProblemField
	add := func(pointer, detail string) {
		problems = append(problems, cloudv1.ProblemField{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: detail})
	}
	prefix, err := netip.ParsePrefix(s.Destination)
	if err != nil || prefix.Masked().String() != s.Destination {
		add("/destination", "must be a CIDR without host bits, such as 10.244.1.0/24")
	}
	switch hop := s.NextHop; {
	case (hop.InstanceID == "") == (hop.Address == ""):
		add("/next_hop", "must have exactly one of instance_id and address")
	case hop.Address != "":
		if _, err := netip.ParseAddr(hop.Address); err != nil {
			add("/next_hop/address", "must be an IP address")
		}
	default:
		i, err := store.Instances.Get(b.tx, hop.InstanceID)
		var none *store.NotFoundError
		if err != nil && !errors.As(err, &none) {
			return err
		}
		if err != nil || i.State == cloudv1.InstanceDeleted {
			add("/next_hop/instance_id", "must be an existing instance")
		}
	}
	problems = slices.Concat(problems, write.ValidateTags(s.Tags))
	if len(problems) > 0 {
		return failure.Invalid(problems)
	}
	return nil
}

func (b *routesBatch) remove(s cloudv1.RouteRemoval) error {
	r, exists := b.routes[s.Destination]
	if !exists {
		return failure.New(http.StatusNotFound, cloudv1.CodeResourceNotFound, "no route to %s", s.Destination)
	}
	if s.NextHop != nil && *s.NextHop != r.NextHop {
		return failure.New(http.StatusConflict, cloudv1.CodeConflict, "route %s has a different next hop",
			r.ID).On(store.Routes.Name, r.ID)
	}
	if err := b.params.CheckTags(store.Routes.Name, &r.Object); err != nil {
		return err
	}
	delete(b.routes, s.Destination)
	return store.Routes.Delete(b.tx, r.ID)
}
