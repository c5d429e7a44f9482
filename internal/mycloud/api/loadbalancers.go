package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/edges"
	"quaymaster.dev/internal/mycloud/store"
)

// CreateLoadBalancerParams holds the parameters of create-load-balancer.
type CreateLoadBalancerParams struct {
	PostParams
	Body cloudv1.LoadBalancerSpec
}

// Resolve validates what the schema cannot express.
func (p *CreateLoadBalancerParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// ValidateParams holds the parameters of validate-load-balancer.
type ValidateParams struct{ Body cloudv1.LoadBalancerSpec }

// Resolve validates what the schema cannot express.
func (p *ValidateParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// UpdateLoadBalancerParams holds the parameters of update-load-balancer.
type UpdateLoadBalancerParams struct {
	DeleteParams
	Body cloudv1.LoadBalancerSpec
}

// Resolve validates what the schema cannot express.
func (p *UpdateLoadBalancerParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// AdoptParams holds the parameters of adopt-load-balancer.
type AdoptParams struct {
	PostParams
	ID   string `path:"id" maxLength:"255" doc:"The id of the load balancer."`
	Body cloudv1.Adoption
}

// Resolve validates what the schema cannot express.
func (p *AdoptParams) Resolve(huma.Context) []error { return failure.Fields(validateTags(p.Body.Tags)) }

// ListLoadBalancersParams holds the parameters of list-load-balancers.
type ListLoadBalancersParams struct {
	ListParams
	Expand string `query:"expand" enum:"tree" doc:"Adds listeners and pools; limits pages to 100 objects."`
}

// HealthParams holds the parameters of get-load-balancer-health.
type HealthParams struct {
	ID string `path:"id" maxLength:"255" doc:"The id of the load balancer."`
}

// treeAnswer is the response to a write of a load balancer.
type treeAnswer = Answer[cloudv1.LoadBalancer]

func checkTree(ctx huma.Context, s *cloudv1.LoadBalancerSpec) []error {
	noteTree(ctx.Context(), s)
	return failure.Fields(append(validateTags(s.Tags), balancer.Validate(s)...))
}

func (a *API) registerLoadBalancers() {
	const tag, path = "load-balancers", "/v1/load-balancers"
	registerRead(a, operation{"list-load-balancers", tag, "Load balancers"}, path, a.listLoadBalancers, conditional, expires)
	registerGet(a, operation{"get-load-balancer", tag, "A load balancer with its tree"}, path+"/{id}", a.loadBalancers())
	registerRead(a, operation{"get-load-balancer-health", tag, "The health of all members"},
		path+"/{id}/health", a.loadBalancerHealth)
	registerRead(a, operation{"get-load-balancer-stats", tag, "What the listeners have done on all edges"},
		path+"/{id}/stats", a.loadBalancerStats)
	registerWrite(a, operation{"create-load-balancer", tag, "Creates a load balancer with its tree"},
		http.MethodPost, path, []int{http.StatusCreated, http.StatusAccepted}, a.createLoadBalancer,
		means("Creates the load balancer with listeners, pools and members in one request. If the response is 202, edges serve it "+
			"when the job has succeeded."))
	registerQuestion(a, operation{"validate-load-balancer", tag, "Validates a load balancer without creating it"},
		path+":validate", a.validateLoadBalancer, answers(http.StatusNoContent, "The load balancer is valid."), refuses(http.StatusConflict),
		means("Fails as create-load-balancer would, and creates nothing."))
	either := []int{http.StatusOK, http.StatusAccepted}
	registerWrite(a, operation{"update-load-balancer", tag, "Replaces the tree of a load balancer"},
		http.MethodPut, path+"/{id}", either, a.updateLoadBalancer, demandsRevision,
		means("What the body does not have is removed. The vips of unchanged families are kept."))
	registerWrite(a, operation{"patch-load-balancer", tag, "Changes name, tags or deletion protection"},
		http.MethodPatch, path+"/{id}", either, a.patchLoadBalancer, demandsRevision, takesMergePatch[cloudv1.LoadBalancerPatch](a),
		means("Changes only the fields in the body. All other fields of a load balancer are rejected."))
	registerWrite(a, operation{"adopt-load-balancer", tag, "Adds tags to a load balancer"},
		http.MethodPost, path+"/{id}:adopt", either, a.adoptLoadBalancer, demandsRevision,
		means("Takes over a load balancer that other software has created. It fails if the load balancer has one of the tags with "+
			"a different value."))
	registerWrite(a, operation{"delete-load-balancer", tag, "Deletes a load balancer with its tree"},
		http.MethodDelete, path+"/{id}", either, a.deleteLoadBalancer, demandsRevision,
		means("Deletes listeners, pools and members, too. The addresses are reserved until all edges have confirmed that they no "+
			"longer serve them. It fails while the load balancer has deletion_protection. If the job fails, the load balancer stays "+
			"pending_delete, and the next DELETE tries again."))
}

func (a *API) loadBalancers() view[cloudv1.LoadBalancer] {
	return view[cloudv1.LoadBalancer]{
		kind:  store.LoadBalancers,
		state: func(lb *cloudv1.LoadBalancer) string { return string(lb.ProvisioningState) },
		show:  a.showLoadBalancers,
	}
}

func (a *API) listLoadBalancers(
	_ context.Context, p *ListLoadBalancersParams,
) (*Found[cloudv1.List[cloudv1.LoadBalancer]], error) {
	v := a.loadBalancers()
	if p.Expand == "tree" {
		v.pageMax = treePageMax
		return listObjects(a, v, p.ListParams)
	}
	v.show = func(tx *store.Tx) func(*cloudv1.LoadBalancer) error {
		observe := a.showLoadBalancers(tx)
		return func(lb *cloudv1.LoadBalancer) error {
			err := observe(lb)
			lb.Listeners, lb.Pools = nil, nil
			return err
		}
	}
	return listObjects(a, v, p.ListParams)
}

// showLoadBalancers adds the operating state.
func (a *API) showLoadBalancers(tx *store.Tx) func(*cloudv1.LoadBalancer) error {
	f := a.facts(tx)
	return func(lb *cloudv1.LoadBalancer) error {
		h, err := balancer.Observe(lb, f)
		lb.OperatingState = h.OperatingState
		return err
	}
}

func (a *API) loadBalancerHealth(_ context.Context, p *HealthParams) (*Plain[cloudv1.Health], error) {
	var h cloudv1.Health
	err := a.Store.View(func(tx *store.Tx) error {
		lb, err := store.LoadBalancers.Get(tx, p.ID)
		if err != nil {
			return failure.Absent(err)
		}
		h, err = balancer.Observe(lb, a.facts(tx))
		return err
	})
	return &Plain[cloudv1.Health]{Body: h}, err
}

// facts returns the facts that health depends on. Callers must not change them.
func (a *API) facts(tx *store.Tx) balancer.Facts {
	groups := a.groups.of(tx, store.NodeGroups.UnchangedSince)
	instances := a.instances.of(tx, store.Instances.UnchangedSince)
	return balancer.Facts{
		Now:   tx.Now,
		Edges: a.edges.Select((*edges.Edge).Online),
		Group: func(id string) (*cloudv1.NodeGroup, error) {
			return groups.get(tx, id, func() (*cloudv1.NodeGroup, error) { return store.NodeGroups.Get(tx, id) })
		},
		Instance: func(id string) (cloudv1.InstanceState, error) {
			return instances.get(tx, id, func() (cloudv1.InstanceState, error) {
				i, err := store.Instances.Get(tx, id)
				if _, none := errors.AsType[*store.NotFoundError](err); none {
					return "", nil
				}
				if err != nil {
					return "", err
				}
				return i.State, nil
			})
		},
	}
}
