// Package instances serves instances, which are virtual machines.
package instances

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// createInstanceParams holds the parameters of create-instance.
type createInstanceParams struct {
	write.PostParams
	Body cloudv1.InstanceSpec
}

// Resolve validates what the schema cannot express.
func (p *createInstanceParams) Resolve(huma.Context) []error {
	problems := write.ValidateTags(p.Body.Tags)
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

// instanceActionParams holds the parameters of start-instance and stop-instance.
type instanceActionParams struct {
	write.PostParams
	ID string `path:"id" maxLength:"255" doc:"The id of the object."`
}

// lookupParams holds the parameters of lookup-instances.
type lookupParams struct{ Body cloudv1.LookupRequest }

// api serves the operations.
type api struct {
	read  *read.Reader
	write *write.Writer
}

// Register adds the operations of instances.
func Register(r *read.Reader, w *write.Writer) {
	a := &api{read: r, write: w}
	all := read.View[cloudv1.Instance]{
		Kind:      store.Instances,
		State:     func(i *cloudv1.Instance) string { return string(i.State) },
		Tombstone: tombstone,
	}
	read.RegisterObject(r, operation.New("get-instance", "instances", "An instance, or its tombstone"), "/v1/instances/{id}", all)
	read.RegisterList(r, operation.New("list-instances", "instances", "Instances"), "/v1/instances", all)
	operation.Question(r.API, operation.New("lookup-instances", "instances", "Instances by id and hostname"), "/v1/instances:lookup",
		a.lookupInstances,
		describe.Means("Finds many instances in one request. Nothing is changed. Ids can find tombstones, host names cannot."),
	)
	operation.Write(r.API, operation.New("create-instance", "instances", "Creates and starts an instance"),
		http.MethodPost, "/v1/instances", []int{http.StatusCreated}, a.createInstance,
		describe.Means("The instance is running when the response arrives."))
	operation.Write(r.API, operation.New("delete-instance", "instances", "Deletes an instance"),
		http.MethodDelete, "/v1/instances/{id}", []int{http.StatusOK}, a.deleteInstance,
		describe.Means("The response is the tombstone of the instance, which is kept for at least seven days."),
	)
	operation.Write(r.API, operation.New("start-instance", "instances", "Starts an instance"),
		http.MethodPost, "/v1/instances/{id}:start", []int{http.StatusOK},
		func(_ context.Context, p *instanceActionParams) (*instanceAnswer, error) {
			return a.switchInstance(p, "start", cloudv1.InstanceStopped, cloudv1.InstanceRunning)
		}, describe.Means("Starts an instance that is stopped; one that is running stays as it is."), describe.Refuses(http.StatusGone))
	operation.Write(r.API, operation.New("stop-instance", "instances", "Stops an instance"),
		http.MethodPost, "/v1/instances/{id}:stop", []int{http.StatusOK},
		func(_ context.Context, p *instanceActionParams) (*instanceAnswer, error) {
			return a.switchInstance(p, "stop", cloudv1.InstanceRunning, cloudv1.InstanceStopped)
		}, describe.Means("Stops an instance that is running; one that is stopped stays as it is."), describe.Refuses(http.StatusGone))
}

func tombstone(i *cloudv1.Instance) bool { return i.State == cloudv1.InstanceDeleted }

func (a *api) lookupInstances(_ context.Context, p *lookupParams) (*operation.Plain[cloudv1.LookupResult], error) {
	res := cloudv1.LookupResult{Items: []cloudv1.Instance{}, NotFound: []string{}}
	err := a.read.Store.View(func(tx *store.Tx) error {
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
	return &operation.Plain[cloudv1.LookupResult]{Body: res}, err
}

// instanceAnswer is the response to a write of an instance.
type instanceAnswer = operation.Answer[cloudv1.Instance]

func (a *api) createInstance(_ context.Context, p *createInstanceParams) (*instanceAnswer, error) {
	return write.Post(a.write, p.PostParams, "create instance", p.Body, func(tx *store.Tx) (*instanceAnswer, error) {
		s := p.Body
		i := &cloudv1.Instance{
			Object:   cloudv1.Object{Name: s.Name, Tags: s.Tags},
			Hostname: s.Hostname, State: cloudv1.InstanceRunning, Type: s.Type, Zone: s.Zone,
			Addresses: append([]cloudv1.InstanceAddress{}, s.Addresses...),
		}
		if i.Name == "" {
			i.Name = s.Hostname
		}
		if err := p.CheckTags(store.Instances.Name, &i.Object); err != nil {
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
		if err := write.Quota(a.write, tx, store.Instances, tombstone); err != nil {
			return nil, err
		}
		return write.Create(tx, p.DryRun, "i-", store.Instances, i)
	})
}

func (a *api) switchInstance(
	p *instanceActionParams, verb string, from, to cloudv1.InstanceState,
) (*instanceAnswer, error) {
	return write.Post(a.write, p.PostParams, verb+" instance "+p.ID, nil, func(tx *store.Tx) (*instanceAnswer, error) {
		i, err := write.Checked(tx, store.Instances, write.ObjectParams{Params: p.Params, ID: p.ID})
		if err != nil {
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
		return write.Done(http.StatusOK, store.Instances, i), nil
	})
}

// deleteInstance turns an instance into a tombstone, its routes into black holes, and detaches its volumes.
func (a *api) deleteInstance(_ context.Context, p *write.ObjectParams) (*instanceAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*instanceAnswer, error) {
		i, err := write.Checked(tx, store.Instances, *p)
		if err != nil {
			return nil, err
		}
		if i.State == cloudv1.InstanceDeleted {
			return write.Done(http.StatusOK, store.Instances, i), nil
		}
		now := tx.Now
		i.State, i.DeletedAt = cloudv1.InstanceDeleted, &now
		if _, err := store.Instances.Put(tx, i); err != nil {
			return nil, err
		}
		if err := detach(tx, i.ID); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Instances, i), nil
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

// reference converts the absence of an object that a field refers to into a problem of that field.
func reference(pointer string, err error) error {
	if none, ok := errors.AsType[*store.NotFoundError](err); ok {
		return failure.InvalidField(pointer, "%s", none)
	}
	return err
}
