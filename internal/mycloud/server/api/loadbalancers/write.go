package loadbalancers

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/jobs"
	"quaymaster.dev/internal/mycloud/server/store"
)

// The names of the jobs of load balancers.
const (
	createJob = "load-balancer.create"
	updateJob = "load-balancer.update"
	deleteJob = "load-balancer.delete"
)

func (a *LoadBalancers) createLoadBalancer(_ context.Context, p *createLoadBalancerParams) (*treeAnswer, error) {
	return write.Post(a.Write, p.PostParams, "create load balancer", p.Body, func(tx *store.Tx) (*treeAnswer, error) {
		return a.insertLoadBalancer(tx, p)
	})
}

func (a *LoadBalancers) validateLoadBalancer(_ context.Context, p *validateParams) (*struct{}, error) {
	create := &createLoadBalancerParams{PostParams: write.PostParams{Params: write.Params{DryRun: true}}, Body: p.Body}
	_, err := write.Change(a.Write, create.Params, func(tx *store.Tx) (*treeAnswer, error) {
		return a.insertLoadBalancer(tx, create)
	})
	return nil, err
}

func (a *LoadBalancers) insertLoadBalancer(tx *store.Tx, p *createLoadBalancerParams) (*treeAnswer, error) {
	lb := &cloudv1.LoadBalancer{
		Object:            cloudv1.Object{ID: write.NewID("lb-"), Name: p.Body.Name, Tags: p.Body.Tags},
		ProvisioningState: cloudv1.ProvisioningActive,
	}
	if err := p.CheckTags(store.LoadBalancers.Name, &cloudv1.Object{Tags: lb.Tags}); err != nil {
		return nil, err
	}
	if err := write.Quota(a.Write, tx, store.LoadBalancers, nil); err != nil {
		return nil, err
	}
	if err := a.applyTree(tx, lb, p.Body.LoadBalancerFields); err != nil {
		return nil, err
	}
	if err := takeName(tx, lb, ""); err != nil {
		return nil, err
	}
	if a.asynchronous() {
		lb.ProvisioningState = cloudv1.ProvisioningPendingCreate
	}
	answer, err := a.storeLoadBalancer(tx, lb, http.StatusCreated, createJob)
	if err == nil && p.DryRun {
		answer.Body.ID = ""
	}
	return answer, err
}

func (a *LoadBalancers) updateLoadBalancer(_ context.Context, p *updateLoadBalancerParams) (*treeAnswer, error) {
	return write.Change(a.Write, p.Params, func(tx *store.Tx) (*treeAnswer, error) {
		lb, err := load(tx, p.ObjectParams)
		if err != nil {
			return nil, err
		}
		was := lb.Name
		lb.Name, lb.Tags = p.Body.Name, p.Body.Tags
		if err := takeName(tx, lb, was); err != nil {
			return nil, err
		}
		if err := a.applyTree(tx, lb, p.Body.LoadBalancerFields); err != nil {
			return nil, err
		}
		return a.storeLoadBalancer(tx, lb, http.StatusOK, updateJob)
	})
}

func (a *LoadBalancers) adoptLoadBalancer(_ context.Context, p *adoptParams) (*treeAnswer, error) {
	return write.Post(a.Write, p.PostParams, "adopt load balancer "+p.ID, p.Body, func(tx *store.Tx) (*treeAnswer, error) {
		lb, err := load(tx, write.ObjectParams{Params: p.Params, ID: p.ID})
		if err != nil {
			return nil, err
		}
		for k, v := range p.Body.Tags {
			if has, ok := lb.Tags[k]; ok && has != v {
				return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict, "load balancer %s already has the tag %s=%s",
					lb.ID, k, has).On(store.LoadBalancers.Name, lb.ID)
			}
			lb.Tags[k] = v
		}
		if problems := write.ValidateTags(lb.Tags); len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		return a.storeLoadBalancer(tx, lb, http.StatusOK, "")
	})
}

func (a *LoadBalancers) deleteLoadBalancer(_ context.Context, p *write.ObjectParams) (*treeAnswer, error) {
	return write.Change(a.Write, p.Params, func(tx *store.Tx) (*treeAnswer, error) {
		lb, err := write.Demanded(tx, store.LoadBalancers, *p)
		if err != nil {
			return nil, err
		}
		if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete && jobs.Last(tx, target(lb)) != "" {
			return a.answerLoadBalancer(tx, lb, http.StatusOK)
		}
		if lb.DeletionProtection {
			return nil, failure.New(http.StatusConflict, cloudv1.CodeProtected,
				"load balancer %s has deletion protection; set deletion_protection to false first",
				lb.ID).On(store.LoadBalancers.Name, lb.ID)
		}
		lb.ProvisioningState = cloudv1.ProvisioningPendingDelete
		answer, err := a.storeLoadBalancer(tx, lb, http.StatusOK, deleteJob)
		if err == nil && !a.asynchronous() {
			err = a.removeLoadBalancer(tx, lb)
		}
		return answer, err
	})
}

// load reads the load balancer to change, if it meets the preconditions of the write and is not being deleted.
func load(tx *store.Tx, p write.ObjectParams) (*cloudv1.LoadBalancer, error) {
	lb, err := write.Demanded(tx, store.LoadBalancers, p)
	if err != nil {
		return nil, err
	}
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict, "load balancer %s is being deleted", lb.ID).
			On(store.LoadBalancers.Name, lb.ID)
	}
	return lb, nil
}

// storeLoadBalancer writes a load balancer and, if that changes it and needs a job, the job. Clients repeat the write of
// a tree to try again after a failed job, so it ends the fault even if the tree is the same.
func (a *LoadBalancers) storeLoadBalancer(tx *store.Tx, lb *cloudv1.LoadBalancer, status int, job string) (*treeAnswer, error) {
	if job != "" {
		lb.Fault = nil
		if lb.ProvisioningState == cloudv1.ProvisioningError {
			lb.ProvisioningState = cloudv1.ProvisioningActive
		}
	}
	changed, err := store.LoadBalancers.Put(tx, lb)
	if err != nil {
		return nil, err
	}
	vips := lb.VIPs
	if job == deleteJob {
		vips = nil
	}
	if err := addresses.Reserve(tx, lb.ID, vips); err != nil {
		return nil, err
	}
	if !a.asynchronous() {
		if err := a.addresses.Free(tx); err != nil {
			return nil, err
		}
	}
	if changed && job != "" && a.asynchronous() {
		if lb.ProvisioningState == cloudv1.ProvisioningActive {
			lb.ProvisioningState = cloudv1.ProvisioningPendingUpdate
			if _, err := store.LoadBalancers.Put(tx, lb); err != nil {
				return nil, err
			}
		}
		if !tx.Rehearsal {
			if _, err := jobs.Enqueue(tx, write.NewID("job-"), job, target(lb), lb.Revision, lb.Tags); err != nil {
				return nil, err
			}
		}
	}
	return a.answerLoadBalancer(tx, lb, status)
}

// asynchronous reports whether writes of load balancers go on as jobs.
func (a *LoadBalancers) asynchronous() bool {
	return a.JobDuration > 0 || len(a.Edges.Select((*edges.Edge).Online)) > 0
}

// answerLoadBalancer responds with 202 as long as a job is open, except to a dry run, which starts no job.
func (a *LoadBalancers) answerLoadBalancer(tx *store.Tx, lb *cloudv1.LoadBalancer, status int) (*treeAnswer, error) {
	job := jobs.Last(tx, target(lb))
	if err := a.showLoadBalancers(tx)(lb); err != nil {
		return nil, err
	}
	answer := write.Done(status, store.LoadBalancers, lb)
	if job != "" && !tx.Rehearsal {
		answer.Status, answer.Location = http.StatusAccepted, "/v1/jobs/"+job
	}
	return answer, nil
}

// FinishJob applies the result of a job.
func (a *LoadBalancers) FinishJob(tx *store.Tx, j *cloudv1.Job, open bool) error {
	lb, err := store.LoadBalancers.Get(tx, j.Target.ID)
	if err != nil {
		return err
	}
	if j.Name == deleteJob && j.Error == nil {
		return a.removeLoadBalancer(tx, lb)
	}
	switch {
	case j.Name == deleteJob:
		// What edges stop to serve, they must not begin to serve again.
		lb.Fault = j.Error
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete:
	case open:
		lb.ProvisioningState = cloudv1.ProvisioningPendingUpdate
	case j.Error != nil:
		lb.ProvisioningState, lb.Fault = cloudv1.ProvisioningError, j.Error
	default:
		lb.ProvisioningState = cloudv1.ProvisioningActive
	}
	if _, err = store.LoadBalancers.Put(tx, lb); err != nil {
		return err
	}
	return a.addresses.Free(tx)
}

func target(lb *cloudv1.LoadBalancer) cloudv1.Reference {
	return cloudv1.Reference{Kind: store.LoadBalancers.Name, ID: lb.ID}
}
