// Package loadbalancers serves load balancers with their listeners, pools and members, which are written as one tree: at once, or in jobs
// that wait for the edges.
package loadbalancers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

// TreePageMax is how many load balancers a page has that includes their trees.
const TreePageMax = 100

// Options holds the dependencies of load balancers.
type Options struct {
	Read  *read.Reader
	Write *write.Writer
	// Members are the rules for the addresses of members.
	Members members.Rules
	// Edges are the registered edges with what they have applied.
	Edges *edges.Registry
	// JobDuration is how long writes take, besides the time that edges need; 0 means that without edges they complete before
	// the response.
	JobDuration time.Duration
	Clock       clock.Clock
	Logger      *slog.Logger
}

// LoadBalancers serves load balancers.
type LoadBalancers struct {
	Options
	addresses *addresses.Addresses
	// groups and instances are what the operating states of load balancers depend on.
	groups    recent[*cloudv1.NodeGroup]
	instances recent[cloudv1.InstanceState]
}

// New returns the load balancers of a cloud.
func New(o Options) *LoadBalancers {
	return &LoadBalancers{Options: o, addresses: &addresses.Addresses{Edges: o.Edges}}
}

// createLoadBalancerParams holds the parameters of create-load-balancer.
type createLoadBalancerParams struct {
	write.PostParams
	Body cloudv1.LoadBalancerSpec
}

// Resolve validates what the schema cannot express.
func (p *createLoadBalancerParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// validateParams holds the parameters of validate-load-balancer.
type validateParams struct{ Body cloudv1.LoadBalancerSpec }

// Resolve validates what the schema cannot express.
func (p *validateParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// updateLoadBalancerParams holds the parameters of update-load-balancer.
type updateLoadBalancerParams struct {
	write.ObjectParams
	Body cloudv1.LoadBalancerSpec
}

// Resolve validates what the schema cannot express.
func (p *updateLoadBalancerParams) Resolve(ctx huma.Context) []error { return checkTree(ctx, &p.Body) }

// adoptParams holds the parameters of adopt-load-balancer.
type adoptParams struct {
	write.PostParams
	ID   string `path:"id" maxLength:"255" doc:"The id of the load balancer."`
	Body cloudv1.Adoption
}

// Resolve validates what the schema cannot express.
func (p *adoptParams) Resolve(huma.Context) []error {
	return failure.Fields(write.ValidateTags(p.Body.Tags))
}

// listLoadBalancersParams holds the parameters of list-load-balancers.
type listLoadBalancersParams struct {
	read.ListParams
	Expand string `query:"expand" enum:"tree" doc:"Adds listeners and pools; limits pages to 100 objects."`
}

// idParams holds the parameters of reads of what a load balancer does.
type idParams struct {
	ID string `path:"id" maxLength:"255" doc:"The id of the load balancer."`
}

// treeAnswer is the response to a write of a load balancer.
type treeAnswer = operation.Answer[cloudv1.LoadBalancer]

func checkTree(ctx huma.Context, s *cloudv1.LoadBalancerSpec) []error {
	operation.Note(ctx.Context(), func(tx *store.Tx) ([]cloudv1.ProblemField, error) {
		return danglingReferences(tx, &s.LoadBalancerFields), nil
	})
	return failure.Fields(append(write.ValidateTags(s.Tags), balancer.Validate(s)...))
}

// Register adds the operations of load balancers and their addresses.
func (a *LoadBalancers) Register() {
	a.addresses.Register(a.Read)
	const tag, path = "load-balancers", "/v1/load-balancers"
	operation.Read(a.Read.API, operation.New("list-load-balancers", tag, "Load balancers"), path, a.listLoadBalancers, describe.Conditional, describe.Expires)
	read.RegisterObject(a.Read, operation.New("get-load-balancer", tag, "A load balancer with its tree"), path+"/{id}", a.View())
	operation.Read(a.Read.API, operation.New("get-load-balancer-health", tag, "The health of all members"),
		path+"/{id}/health", a.loadBalancerHealth)
	operation.Read(a.Read.API, operation.New("get-load-balancer-stats", tag, "What the listeners have done on all edges"),
		path+"/{id}/stats", a.loadBalancerStats)
	operation.Write(a.Read.API, operation.New("create-load-balancer", tag, "Creates a load balancer with its tree"),
		http.MethodPost, path, []int{http.StatusCreated, http.StatusAccepted}, a.createLoadBalancer,
		describe.Means("Creates the load balancer with listeners, pools and members in one request. If the response is 202, edges serve it "+
			"when the job has succeeded."))
	operation.Question(a.Read.API, operation.New("validate-load-balancer", tag, "Validates a load balancer without creating it"),
		path+":validate", a.validateLoadBalancer, describe.Answers(http.StatusNoContent, "The load balancer is valid."), describe.Refuses(http.StatusConflict),
		describe.Means("Fails as create-load-balancer would, and creates nothing."))
	either := []int{http.StatusOK, http.StatusAccepted}
	operation.Write(a.Read.API, operation.New("update-load-balancer", tag, "Replaces the tree of a load balancer"),
		http.MethodPut, path+"/{id}", either, a.updateLoadBalancer, describe.DemandsRevision,
		describe.Means("What the body does not have is removed. The vips of unchanged families are kept."))
	operation.Write(a.Read.API, operation.New("patch-load-balancer", tag, "Changes name, tags or deletion protection"),
		http.MethodPatch, path+"/{id}", either, a.patchLoadBalancer, describe.DemandsRevision, describe.TakesMergePatch[cloudv1.LoadBalancerPatch](a.Read.API),
		describe.Means("Changes only the fields in the body. All other fields of a load balancer are rejected."))
	operation.Write(a.Read.API, operation.New("adopt-load-balancer", tag, "Adds tags to a load balancer"),
		http.MethodPost, path+"/{id}:adopt", either, a.adoptLoadBalancer, describe.DemandsRevision,
		describe.Means("Takes over a load balancer that other software has created. It fails if the load balancer has one of the tags with "+
			"a different value."))
	operation.Write(a.Read.API, operation.New("batch-members", tag, "Changes the members of many pools"),
		http.MethodPost, "/v1/member-batches", []int{http.StatusOK}, a.batchMembers,
		describe.Means("Each operation succeeds or fails independently. The response has one result per operation, in order."))
	operation.Write(a.Read.API, operation.New("delete-load-balancer", tag, "Deletes a load balancer with its tree"),
		http.MethodDelete, path+"/{id}", either, a.deleteLoadBalancer, describe.DemandsRevision,
		describe.Means("Deletes listeners, pools and members, too. The addresses are reserved until all edges have confirmed that they no "+
			"longer serve them. It fails while the load balancer has deletion_protection. If the job fails, the load balancer stays "+
			"pending_delete, and the next DELETE tries again."))
}

// View defines how load balancers are read.
func (a *LoadBalancers) View() read.View[cloudv1.LoadBalancer] {
	return read.View[cloudv1.LoadBalancer]{
		Kind:  store.LoadBalancers,
		State: func(lb *cloudv1.LoadBalancer) string { return string(lb.ProvisioningState) },
		Show:  a.showLoadBalancers,
	}
}

func (a *LoadBalancers) listLoadBalancers(
	ctx context.Context, p *listLoadBalancersParams,
) (*operation.Found[cloudv1.List[cloudv1.LoadBalancer]], error) {
	v := a.View()
	if p.Expand == "tree" {
		v.PageMax = TreePageMax
		return read.Page(ctx, a.Read, v, p.ListParams)
	}
	v.Show = func(tx *store.Tx) func(*cloudv1.LoadBalancer) error {
		observe := a.showLoadBalancers(tx)
		return func(lb *cloudv1.LoadBalancer) error {
			err := observe(lb)
			lb.Listeners, lb.Pools = nil, nil
			return err
		}
	}
	return read.Page(ctx, a.Read, v, p.ListParams)
}

// showLoadBalancers adds the operating state.
func (a *LoadBalancers) showLoadBalancers(tx *store.Tx) func(*cloudv1.LoadBalancer) error {
	f := a.Facts(tx)
	return func(lb *cloudv1.LoadBalancer) error {
		h, err := balancer.Observe(lb, f)
		lb.OperatingState = h.OperatingState
		return err
	}
}

func (a *LoadBalancers) loadBalancerHealth(_ context.Context, p *idParams) (*operation.Plain[cloudv1.Health], error) {
	var h cloudv1.Health
	err := a.Read.Store.View(func(tx *store.Tx) error {
		lb, err := store.LoadBalancers.Get(tx, p.ID)
		if err != nil {
			return failure.Absent(err)
		}
		h, err = balancer.Observe(lb, a.Facts(tx))
		return err
	})
	return &operation.Plain[cloudv1.Health]{Body: h}, err
}

// Facts returns the facts that health depends on. Callers must not change them.
func (a *LoadBalancers) Facts(tx *store.Tx) balancer.Facts {
	groups := a.groups.of(tx, store.NodeGroups.UnchangedSince)
	instances := a.instances.of(tx, store.Instances.UnchangedSince)
	return balancer.Facts{
		Now:   tx.Now,
		Edges: a.Edges.Select((*edges.Edge).Online),
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
