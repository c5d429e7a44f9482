package api

import (
	"context"
	"net/http"

	"quaymaster.dev/internal/mycloud/jobs"
	"quaymaster.dev/internal/mycloud/store"
	"quaymaster.dev/provider/cloudapi"
)

const deleteJob = "load-balancer.delete"

func (a *API) createLoadBalancer(_ context.Context, p *CreateLoadBalancerParams) (*Answer[cloudapi.LoadBalancer], error) {
	return post(a, p.PostParams, "create load balancer", p.Body, func(tx *store.Tx) (*Answer[cloudapi.LoadBalancer], error) {
		return a.insertLoadBalancer(tx, p)
	})
}

func (a *API) validateLoadBalancer(_ context.Context, p *ValidateParams) (*struct{}, error) {
	create := &CreateLoadBalancerParams{PostParams: PostParams{WriteParams: WriteParams{DryRun: true}}, Body: p.Body}
	_, err := change(a, create.WriteParams, func(tx *store.Tx) (*Answer[cloudapi.LoadBalancer], error) {
		return a.insertLoadBalancer(tx, create)
	})
	return nil, err
}

func (a *API) insertLoadBalancer(tx *store.Tx, p *CreateLoadBalancerParams) (*Answer[cloudapi.LoadBalancer], error) {
	lb := &cloudapi.LoadBalancer{
		Object:            cloudapi.Object{ID: newID("lb-"), Name: p.Body.Name, Tags: p.Body.Tags},
		ProvisioningState: cloudapi.Active,
	}
	if err := p.checkTags(store.LoadBalancers.Name, &cloudapi.Object{Tags: lb.Tags}); err != nil {
		return nil, err
	}
	if err := a.applyTree(tx, lb, p.Body.LoadBalancerFields); err != nil {
		return nil, err
	}
	if err := takeName(tx, lb, ""); err != nil {
		return nil, err
	}
	if a.JobDuration > 0 {
		lb.ProvisioningState = cloudapi.PendingCreate
	}
	answer, err := a.storeLoadBalancer(tx, lb, http.StatusCreated, "load-balancer.create")
	if err == nil && p.DryRun {
		answer.Body.ID = ""
	}
	return answer, err
}

func (a *API) updateLoadBalancer(_ context.Context, p *UpdateLoadBalancerParams) (*Answer[cloudapi.LoadBalancer], error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*Answer[cloudapi.LoadBalancer], error) {
		lb, err := p.load(tx)
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
		return a.storeLoadBalancer(tx, lb, http.StatusOK, "load-balancer.update")
	})
}

func (a *API) adoptLoadBalancer(_ context.Context, p *AdoptParams) (*Answer[cloudapi.LoadBalancer], error) {
	return post(a, p.PostParams, "adopt load balancer "+p.ID, p.Body, func(tx *store.Tx) (*Answer[cloudapi.LoadBalancer], error) {
		lb, err := DeleteParams{WriteParams: p.WriteParams, ID: p.ID}.load(tx)
		if err != nil {
			return nil, err
		}
		for k, v := range p.Body.Tags {
			if has, ok := lb.Tags[k]; ok && has != v {
				return nil, fail(http.StatusConflict, cloudapi.CodeConflict, "load balancer %s bears the tag %s=%s already",
					lb.ID, k, has).on(store.LoadBalancers.Name, lb.ID)
			}
			lb.Tags[k] = v
		}
		if problems := validateTags(lb.Tags); len(problems) > 0 {
			return nil, invalid(problems)
		}
		return a.storeLoadBalancer(tx, lb, http.StatusOK, "")
	})
}

func (a *API) deleteLoadBalancer(_ context.Context, p *DeleteParams) (*Answer[cloudapi.LoadBalancer], error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*Answer[cloudapi.LoadBalancer], error) {
		lb, err := demanded(tx, store.LoadBalancers, *p)
		if err != nil {
			return nil, err
		}
		if lb.ProvisioningState == cloudapi.PendingDelete {
			return answerLoadBalancer(tx, lb, http.StatusOK)
		}
		if lb.DeletionProtection {
			return nil, fail(http.StatusConflict, cloudapi.CodeProtected,
				"load balancer %s has deletion protection: end it first", lb.ID).on(store.LoadBalancers.Name, lb.ID)
		}
		if a.JobDuration == 0 {
			if err := removeLoadBalancer(tx, lb); err != nil {
				return nil, err
			}
			lb.ProvisioningState = cloudapi.PendingDelete
			lb.OperatingState = "unknown"
			return done(http.StatusOK, store.LoadBalancers, lb), nil
		}
		lb.ProvisioningState = cloudapi.PendingDelete
		return a.storeLoadBalancer(tx, lb, http.StatusOK, deleteJob)
	})
}

// load reads the load balancer to be changed, if it is as the write presumes and not about to go.
func (p DeleteParams) load(tx *store.Tx) (*cloudapi.LoadBalancer, error) {
	lb, err := demanded(tx, store.LoadBalancers, p)
	if err != nil {
		return nil, err
	}
	if lb.ProvisioningState == cloudapi.PendingDelete {
		return nil, fail(http.StatusConflict, cloudapi.CodeConflict, "load balancer %s is being deleted", lb.ID).
			on(store.LoadBalancers.Name, lb.ID)
	}
	return lb, nil
}

// storeLoadBalancer writes a load balancer and, where that changes it and takes time, the job.
func (a *API) storeLoadBalancer(tx *store.Tx, lb *cloudapi.LoadBalancer, status int, job string) (*Answer[cloudapi.LoadBalancer], error) {
	changed, err := store.LoadBalancers.Put(tx, lb)
	if err != nil {
		return nil, err
	}
	if changed && job != "" && a.JobDuration > 0 {
		if lb.ProvisioningState == cloudapi.Active {
			lb.ProvisioningState = cloudapi.PendingUpdate
			if _, err := store.LoadBalancers.Put(tx, lb); err != nil {
				return nil, err
			}
		}
		if !tx.Rehearsal {
			if _, err := jobs.Enqueue(tx, newID("job-"), job, target(lb)); err != nil {
				return nil, err
			}
		}
	}
	return answerLoadBalancer(tx, lb, status)
}

// answerLoadBalancer answers 202 as long as a job goes on. A dry run has started none and waits for none.
func answerLoadBalancer(tx *store.Tx, lb *cloudapi.LoadBalancer, status int) (*Answer[cloudapi.LoadBalancer], error) {
	job, err := jobs.Last(tx, target(lb))
	if err != nil {
		return nil, err
	}
	if err := showLoadBalancers(tx)(lb); err != nil {
		return nil, err
	}
	answer := done(status, store.LoadBalancers, lb)
	if job != "" && !tx.Rehearsal {
		answer.Status, answer.Location = http.StatusAccepted, "/v1/jobs/"+job
	}
	return answer, nil
}

// FinishJob makes true what a job was for.
func (a *API) FinishJob(tx *store.Tx, j *cloudapi.Job, open bool) error {
	lb, err := store.LoadBalancers.Get(tx, j.Target.ID)
	if err != nil {
		return err
	}
	if j.Name == deleteJob {
		return removeLoadBalancer(tx, lb)
	}
	switch {
	case lb.ProvisioningState == cloudapi.PendingDelete:
	case open:
		lb.ProvisioningState = cloudapi.PendingUpdate
	default:
		lb.ProvisioningState = cloudapi.Active
	}
	_, err = store.LoadBalancers.Put(tx, lb)
	return err
}

func target(lb *cloudapi.LoadBalancer) cloudapi.Reference {
	return cloudapi.Reference{Kind: store.LoadBalancers.Name, ID: lb.ID}
}
