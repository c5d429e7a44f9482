package loadbalancers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// batchMembersParams holds the parameters of batch-members.
type batchMembersParams struct {
	write.PostParams
	Body cloudv1.MemberBatch
}

// Resolve validates what the schema cannot express.
func (p *batchMembersParams) Resolve(huma.Context) []error {
	var problems []cloudv1.ProblemField
	add := func(pointer, format string, args ...any) {
		problems = append(problems, cloudv1.ProblemField{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
	for i, op := range p.Body.Operations {
		at := fmt.Sprintf("/operations/%d", i)
		keys := map[string]bool{}
		for j, m := range op.Upsert {
			at := fmt.Sprintf("%s/upsert/%d", at, j)
			if keys[m.Key] {
				add(at+"/key", "must be unique; %q is a duplicate", m.Key)
			}
			keys[m.Key] = true
			if problem := balancer.MemberProblem(op.Family, m.Address); problem != "" {
				add(at+"/address", "%s", problem)
			}
		}
		for j, key := range op.Remove {
			if keys[key] {
				add(fmt.Sprintf("%s/remove/%d", at, j), "must not also be in upsert")
			}
		}
	}
	return failure.Fields(problems)
}

type memberBatchAnswer = operation.Answer[cloudv1.MemberBatchResult]

func (a *LoadBalancers) batchMembers(_ context.Context, p *batchMembersParams) (*memberBatchAnswer, error) {
	return write.Post(a.Write, p.PostParams, "batch members", p.Body, func(tx *store.Tx) (*memberBatchAnswer, error) {
		b := &memberBatch{balancers: a, tx: tx, params: p.Params, changed: map[string]*cloudv1.LoadBalancer{}}
		results := make([]cloudv1.MemberResult, 0, len(p.Body.Operations))
		for _, op := range p.Body.Operations {
			res := cloudv1.MemberResult{LoadBalancerID: op.LoadBalancerID, PoolKey: op.PoolKey, Family: op.Family}
			problem, err := failure.OfOperation(b.change(op))
			if err != nil {
				return nil, err
			}
			if problem != nil {
				res.Status, res.Error = problem.Status, problem
			}
			results = append(results, res)
		}
		answers, err := b.store()
		if err != nil {
			return nil, err
		}
		for i := range results {
			if r := &results[i]; r.Error == nil {
				answer := answers[r.LoadBalancerID]
				r.Status, r.Revision = answer.Status, answer.Body.Revision
				r.JobID = strings.TrimPrefix(answer.Location, "/v1/jobs/")
			}
		}
		return &memberBatchAnswer{Status: http.StatusOK, Body: cloudv1.MemberBatchResult{Results: results}}, nil
	})
}

// memberBatch is a batch in progress. Each load balancer is written once, after all operations.
type memberBatch struct {
	balancers *LoadBalancers
	tx        *store.Tx
	params    write.Params
	// changed are the load balancers to write by id, and order their ids in the order of the operations.
	changed map[string]*cloudv1.LoadBalancer
	order   []string
}

// change applies an operation to its load balancer, which still has the revision of before the batch.
func (b *memberBatch) change(op cloudv1.MemberOperation) error {
	lb := b.changed[op.LoadBalancerID]
	if lb == nil {
		var err error
		if lb, err = store.LoadBalancers.Get(b.tx, op.LoadBalancerID); err != nil {
			return err
		}
	}
	params := b.params
	params.IfMatch = op.IfMatch
	if err := params.Demand(store.LoadBalancers.Name, &lb.Object); err != nil {
		return err
	}
	conflict := func(format string, args ...any) error {
		return failure.New(http.StatusConflict, cloudv1.CodeConflict, format, args...).On(store.LoadBalancers.Name, lb.ID)
	}
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return conflict("load balancer %s is being deleted", lb.ID)
	}
	i := slices.IndexFunc(lb.Pools, func(p cloudv1.Pool) bool { return p.Key == op.PoolKey && p.Family == op.Family })
	if i < 0 {
		return failure.New(http.StatusNotFound, cloudv1.CodeResourceNotFound, "load balancer %s has no pool %q of family %s",
			lb.ID, op.PoolKey, op.Family)
	}
	if group := lb.Pools[i].NodeGroupID; group != "" {
		return conflict("pool %q has the members of node group %s", op.PoolKey, group)
	}
	var upsert []members.Address
	for j, m := range op.Upsert {
		upsert = append(upsert, members.Address{Pointer: fmt.Sprintf("/upsert/%d/address", j), Address: m.Address})
	}
	problems, err := b.balancers.Members.Check(b.tx, poolAddresses(lb.Pools), upsert)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return failure.Invalid(problems)
	}
	kept := slices.DeleteFunc(slices.Clone(lb.Pools[i].Members), func(m cloudv1.Member) bool {
		return slices.Contains(op.Remove, m.Key) ||
			slices.ContainsFunc(op.Upsert, func(u cloudv1.Member) bool { return u.Key == m.Key })
	})
	for _, m := range op.Upsert {
		if problem := balancer.PortProblem(&lb.Pools[i], &m); problem != "" {
			return failure.InvalidField("/upsert/port", "%s", problem)
		}
		m.OperatingState, m.Detail = "", ""
		kept = append(kept, m)
	}
	if len(kept) > members.Max {
		return failure.InvalidField("/upsert", "pool must have at most %d members, not %d", members.Max, len(kept))
	}
	slices.SortFunc(kept, func(a, b cloudv1.Member) int { return strings.Compare(a.Key, b.Key) })
	lb.Pools[i].Members = kept
	if b.changed[lb.ID] == nil {
		b.changed[lb.ID] = lb
		b.order = append(b.order, lb.ID)
	}
	return nil
}

// store writes the load balancers and returns the responses by id.
func (b *memberBatch) store() (map[string]*treeAnswer, error) {
	answers := make(map[string]*treeAnswer, len(b.order))
	for _, id := range b.order {
		answer, err := b.balancers.storeLoadBalancer(b.tx, b.changed[id], http.StatusOK, updateJob)
		if err != nil {
			return nil, err
		}
		answers[id] = answer
	}
	return answers, nil
}
