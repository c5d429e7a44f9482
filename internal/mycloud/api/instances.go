package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/store"
)

// CreateInstanceParams holds the parameters of create-instance.
type CreateInstanceParams struct {
	PostParams
	Body cloudv1.InstanceSpec
}

// Resolve validates what the schema cannot express.
func (p *CreateInstanceParams) Resolve(huma.Context) []error {
	problems := validateTags(p.Body.Tags)
	for i, a := range p.Body.Addresses {
		if a.Type != cloudv1.AddressInternal && a.Type != cloudv1.AddressExternal {
			continue
		}
		if problem := balancer.AddressProblem(a.Family, a.Address); problem != "" {
			problems = append(problems, cloudv1.ProblemField{Pointer: fmt.Sprintf("/addresses/%d/address", i), Detail: problem})
		}
	}
	return failure.Fields(problems)
}

// InstanceActionParams holds the parameters of start-instance and stop-instance.
type InstanceActionParams struct {
	PostParams
	ID string `path:"id" maxLength:"255" doc:"The id of the object."`
}

// DeleteParams holds the parameters of deletions.
type DeleteParams struct {
	WriteParams
	ID string `path:"id" maxLength:"255" doc:"The id of the object."`
}

// LookupParams holds the parameters of lookup-instances.
type LookupParams struct{ Body cloudv1.LookupRequest }

func (a *API) registerInstances() {
	all := instances()
	registerGet(a, operation{"get-instance", "instances", "An instance, or its tombstone"}, "/v1/instances/{id}", all)
	registerRead(a, operation{"list-instances", "instances", "Instances"}, "/v1/instances",
		func(_ context.Context, p *ListParams) (*Found[cloudv1.List[cloudv1.Instance]], error) {
			v := all
			if !p.IncludeDeleted {
				v.match = func(i *cloudv1.Instance) bool { return i.State != cloudv1.InstanceDeleted }
			}
			return listObjects(a, v, *p)
		}, conditional, expires)
	registerQuestion(
		a, operation{"lookup-instances", "instances", "Instances by id and hostname"}, "/v1/instances:lookup",
		a.lookupInstances,
		means("Finds many instances in one request. Nothing is changed. Ids can find tombstones, host names cannot."),
	)
	registerWrite(a, operation{"create-instance", "instances", "Creates and starts an instance"},
		http.MethodPost, "/v1/instances", []int{http.StatusCreated}, a.createInstance,
		means("The instance is running when the response arrives."))
	registerWrite(
		a, operation{"delete-instance", "instances", "Deletes an instance"},
		http.MethodDelete, "/v1/instances/{id}", []int{http.StatusOK}, a.deleteInstance,
		means("The response is the tombstone of the instance, which is kept for at least seven days."),
	)
	registerWrite(a, operation{"start-instance", "instances", "Starts an instance"},
		http.MethodPost, "/v1/instances/{id}:start", []int{http.StatusOK},
		func(_ context.Context, p *InstanceActionParams) (*Answer[cloudv1.Instance], error) {
			return a.switchInstance(p, "start", cloudv1.InstanceStopped, cloudv1.InstanceRunning)
		}, means("Starts an instance that is stopped; one that is running stays as it is."), refuses(http.StatusGone))
	registerWrite(a, operation{"stop-instance", "instances", "Stops an instance"},
		http.MethodPost, "/v1/instances/{id}:stop", []int{http.StatusOK},
		func(_ context.Context, p *InstanceActionParams) (*Answer[cloudv1.Instance], error) {
			return a.switchInstance(p, "stop", cloudv1.InstanceRunning, cloudv1.InstanceStopped)
		}, means("Stops an instance that is running; one that is stopped stays as it is."), refuses(http.StatusGone))
}

func tombstone(i *cloudv1.Instance) bool { return i.State == cloudv1.InstanceDeleted }

func instances() view[cloudv1.Instance] {
	return view[cloudv1.Instance]{
		kind:  store.Instances,
		state: func(i *cloudv1.Instance) string { return string(i.State) },
	}
}

func (a *API) lookupInstances(_ context.Context, p *LookupParams) (*Plain[cloudv1.LookupResult], error) {
	res := cloudv1.LookupResult{Items: []cloudv1.Instance{}, NotFound: []string{}}
	err := a.Store.View(func(tx *store.Tx) error {
		res.Revision = tx.Revision()
		for _, id := range p.Body.IDs {
			i, err := store.Instances.Get(tx, id)
			var none *store.NotFoundError
			switch {
			case errors.As(err, &none):
				res.NotFound = append(res.NotFound, id)
			case err != nil:
				return err
			default:
				res.Items = append(res.Items, *i)
			}
		}
		for _, h := range p.Body.Hostnames {
			found, err := store.Instances.Having(tx, store.NameTerm(h))
			if err != nil {
				return err
			}
			for _, i := range found {
				res.Items = append(res.Items, *i)
			}
			if len(found) == 0 {
				res.NotFound = append(res.NotFound, h)
			}
		}
		return nil
	})
	return &Plain[cloudv1.LookupResult]{Body: res}, err
}

func (a *API) createInstance(_ context.Context, p *CreateInstanceParams) (*Answer[cloudv1.Instance], error) {
	return post(a, p.PostParams, "create instance", p.Body, func(tx *store.Tx) (*Answer[cloudv1.Instance], error) {
		s := p.Body
		i := &cloudv1.Instance{
			Object:   cloudv1.Object{Name: s.Name, Tags: s.Tags},
			Hostname: s.Hostname, State: cloudv1.InstanceRunning, Type: s.Type, Zone: s.Zone,
			Addresses: append([]cloudv1.InstanceAddress{}, s.Addresses...),
		}
		if i.Name == "" {
			i.Name = s.Hostname
		}
		if err := p.checkTags(store.Instances.Name, &i.Object); err != nil {
			return nil, err
		}
		if _, err := store.InstanceTypes.Get(tx, s.Type); err != nil {
			return nil, reference("/type", err)
		}
		zone, err := store.Zones.Get(tx, s.Zone)
		if err != nil {
			return nil, reference("/zone", err)
		}
		i.Region = zone.Region
		for _, id := range store.Instances.Find(tx, store.NameTerm(s.Hostname)) {
			return nil, failure.New(http.StatusConflict, cloudv1.CodeNameTaken, "hostname %q is taken by instance %s",
				s.Hostname, id).On(store.Instances.Name, id)
		}
		if err := quota(a, tx, store.Instances, tombstone); err != nil {
			return nil, err
		}
		return create(tx, p.DryRun, "i-", store.Instances, i)
	})
}

func (a *API) switchInstance(
	p *InstanceActionParams, verb string, from, to cloudv1.InstanceState,
) (*Answer[cloudv1.Instance], error) {
	return post(a, p.PostParams, verb+" instance "+p.ID, nil, func(tx *store.Tx) (*Answer[cloudv1.Instance], error) {
		i, err := store.Instances.Get(tx, p.ID)
		if err != nil {
			return nil, err
		}
		if err := p.check(store.Instances.Name, &i.Object); err != nil {
			return nil, err
		}
		switch i.State {
		case to:
		case from:
			i.State = to
		case cloudv1.InstanceDeleted:
			return nil, failure.New(http.StatusGone, cloudv1.CodeResourceGone, "instance %s is deleted",
				i.ID).On(store.Instances.Name, i.ID)
		default:
			return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict, "cannot %s instance %s in state %s",
				verb, i.ID, i.State).On(store.Instances.Name, i.ID)
		}
		if _, err := store.Instances.Put(tx, i); err != nil {
			return nil, err
		}
		return done(http.StatusOK, store.Instances, i), nil
	})
}

// deleteInstance turns an instance into a tombstone, its routes into black holes, and detaches its volumes.
func (a *API) deleteInstance(_ context.Context, p *DeleteParams) (*Answer[cloudv1.Instance], error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*Answer[cloudv1.Instance], error) {
		i, err := store.Instances.Get(tx, p.ID)
		if err != nil {
			return nil, err
		}
		if err := p.check(store.Instances.Name, &i.Object); err != nil {
			return nil, err
		}
		if i.State == cloudv1.InstanceDeleted {
			return done(http.StatusOK, store.Instances, i), nil
		}
		now := tx.Now
		i.State, i.DeletedAt = cloudv1.InstanceDeleted, &now
		if _, err := store.Instances.Put(tx, i); err != nil {
			return nil, err
		}
		if err := detach(tx, i.ID); err != nil {
			return nil, err
		}
		return done(http.StatusOK, store.Instances, i), nil
	})
}

func detach(tx *store.Tx, instance string) error {
	refers := store.ReferenceTerm(store.Instances.Name, instance)
	routes, err := store.Routes.Having(tx, refers)
	if err != nil {
		return err
	}
	for _, r := range routes {
		r.State = cloudv1.RouteBlackhole
		if _, err := store.Routes.Put(tx, r); err != nil {
			return err
		}
	}
	volumes, err := store.Volumes.Having(tx, refers)
	if err != nil {
		return err
	}
	for _, v := range volumes {
		v.AttachedTo, v.State = "", cloudv1.VolumeAvailable
		if _, err := store.Volumes.Put(tx, v); err != nil {
			return err
		}
	}
	return nil
}

// create stores a new object and responds with 201. The response of a dry run has no id.
func create[T any](tx *store.Tx, dryRun bool, prefix string, k store.Kind[T], v *T) (*Answer[T], error) {
	k.Object(v).ID = newID(prefix)
	if _, err := k.Put(tx, v); err != nil {
		return nil, err
	}
	if dryRun {
		k.Object(v).ID = ""
	}
	return done(http.StatusCreated, k, v), nil
}

func newID(prefix string) string {
	var b [8]byte
	// The standard library guarantees that this never fails.
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// reference converts the absence of an object that a field refers to into a problem of that field.
func reference(pointer string, err error) error {
	if none, ok := errors.AsType[*store.NotFoundError](err); ok {
		return failure.InvalidField(pointer, "%s", none)
	}
	return err
}
