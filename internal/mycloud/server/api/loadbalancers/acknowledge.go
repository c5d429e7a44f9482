package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/jobs"
	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// applyLimit is how long a job waits for edges.
	applyLimit = 30 * time.Second
	// repairPause is how long the repair of load balancers waits after a failed write.
	repairPause = time.Second
)

// AwaitEdges waits until the edges have done what a job is for, and returns nil or why they have not. The time counts
// from the call: a server that starts knows nothing of its edges.
func (a *LoadBalancers) AwaitEdges(ctx context.Context, j *cloudv1.Job) *cloudv1.Problem {
	concerned := concerned(j.Name == deleteJob)
	start := a.Clock.Now()
	for {
		news := a.Edges.Changed()
		v := edges.ProgressOf(a.Edges.Select(concerned), j.Target.ID, edges.Number(j.TargetRevision))
		wait, succeeded := decide(v, j.Name, a.Clock.Since(start))
		switch {
		case succeeded:
			return nil
		case wait == 0:
			return a.edgeFault(ctx, j, v)
		case !a.Edges.Wait(ctx, wait, news):
			return nil
		}
	}
}

// concerned selects the edges in contact that a job waits for. One that is about to leave need not apply anything, but must
// have stopped to serve what is deleted.
func concerned(deletion bool) func(*edges.Edge) bool {
	if deletion {
		return (*edges.Edge).Online
	}
	return (*edges.Edge).Live
}

// decide returns how long a job waits for edges; 0 if it has ended, and whether it succeeded.
func decide(v edges.Progress, job string, waited time.Duration) (wait time.Duration, succeeded bool) {
	if holding(v, job == deleteJob) == 0 {
		return 0, job == deleteJob || len(v.Applied) > 0 || len(v.Faulty) == 0
	}
	limit := applyLimit
	// Only edges that serve a new address attract traffic for it: the others degrade the load balancer, but lose nothing.
	enough := job == createJob && len(v.Applied) > 0
	if enough {
		limit = balancer.ApplyTime
	}
	return max(0, limit-waited), enough && waited >= limit
}

// holding returns the number of edges that a job has to wait for.
func holding(v edges.Progress, deletion bool) int {
	if deletion {
		// An edge that cannot remove the load balancer may try again.
		return len(v.Waiting) + len(v.Faulty)
	}
	return len(v.Waiting)
}

// edgeFault returns the problem of a job that edges have not done.
func (a *LoadBalancers) edgeFault(ctx context.Context, j *cloudv1.Job, v edges.Progress) *cloudv1.Problem {
	p := &cloudv1.Problem{
		Type: "about:blank", Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
		Code: cloudv1.CodeEdgeFault, Retryable: true, Resource: &j.Target,
	}
	listeners := a.listenersOf(ctx, j.Target.ID)
	var texts []string
	for _, e := range v.Faulty {
		for _, f := range e.FaultsOf(j.Target.ID) {
			texts = append(texts, fmt.Sprintf("edge %q: %s", e.Name, f.Detail))
			at := slices.Index(listeners, f.ListenerKey)
			pointer := fmt.Sprintf("/listeners/%d", at)
			if at >= 0 && !slices.ContainsFunc(p.Errors, func(p cloudv1.ProblemField) bool { return p.Pointer == pointer }) {
				p.Errors = append(p.Errors, cloudv1.ProblemField{Pointer: pointer, Code: p.Code, Detail: f.Detail})
			}
		}
	}
	for _, e := range v.Waiting {
		texts = append(texts, fmt.Sprintf("edge %q has not confirmed revision %s in time", e.Name, j.TargetRevision))
		// Those of the edge itself may be why.
		for _, f := range slices.Concat(e.FaultsOf(""), e.FaultsOf(j.Target.ID)) {
			texts = append(texts, fmt.Sprintf("edge %q: %s", e.Name, f.Detail))
		}
	}
	p.Detail = strings.Join(texts, "; ")
	return p
}

// listenersOf returns the keys of a load balancer's listeners; nil if it does not exist.
func (a *LoadBalancers) listenersOf(ctx context.Context, id string) []string {
	var keys []string
	err := a.Read.Store.View(func(tx *store.Tx) error {
		lb, err := store.LoadBalancers.Get(tx, id)
		if err != nil {
			return err
		}
		for _, l := range lb.Listeners {
			keys = append(keys, l.Key)
		}
		return nil
	})
	if none := (*store.NotFoundError)(nil); err != nil && !errors.As(err, &none) {
		a.Logger.ErrorContext(ctx, "Could not read a load balancer", "id", id, "error", err)
	}
	return keys
}

// Repair completes what edges have applied after its job had failed, and frees the addresses that no edge
// holds any more, until ctx is done.
func (a *LoadBalancers) Repair(ctx context.Context, st store.Store) {
	for {
		news := a.Edges.Changed()
		var pause time.Duration
		if err := a.repairOnce(st); err != nil {
			a.Logger.ErrorContext(ctx, "Could not repair load balancers", "error", err)
			pause = repairPause
		}
		if !a.Edges.Wait(ctx, pause, news) {
			return
		}
	}
}

func (a *LoadBalancers) repairOnce(st store.Store) error {
	needed := false
	err := st.View(func(tx *store.Tx) error {
		applied, err := a.appliedLate(tx)
		if err != nil {
			return err
		}
		free, err := a.addresses.Unheld(tx)
		needed = len(applied) > 0 || len(free) > 0
		return err
	})
	if err != nil || !needed {
		return err
	}
	return st.Update(func(tx *store.Tx) error {
		applied, err := a.appliedLate(tx)
		if err != nil {
			return err
		}
		for _, lb := range applied {
			if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
				err = a.removeLoadBalancer(tx, lb)
			} else {
				lb.ProvisioningState, lb.Fault = cloudv1.ProvisioningActive, nil
				_, err = store.LoadBalancers.Put(tx, lb)
			}
			if err != nil {
				return err
			}
		}
		return a.addresses.Free(tx)
	})
}

// appliedLate returns the load balancers whose last job has failed because of edges that have done since what it was for.
func (a *LoadBalancers) appliedLate(tx *store.Tx) ([]*cloudv1.LoadBalancer, error) {
	faulty, err := store.LoadBalancers.Having(tx, store.FaultTerm(cloudv1.CodeEdgeFault))
	if err != nil || len(faulty) == 0 {
		return nil, err
	}
	live, online := a.Edges.Select(concerned(false)), a.Edges.Select(concerned(true))
	return slices.DeleteFunc(faulty, func(lb *cloudv1.LoadBalancer) bool {
		if jobs.Last(tx, target(lb)) != "" {
			return true
		}
		if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
			return holding(edges.ProgressOf(online, lb.ID, edges.Number(lb.Revision)), true) > 0
		}
		v := edges.ProgressOf(live, lb.ID, edges.Number(lb.Revision))
		return lb.ProvisioningState != cloudv1.ProvisioningError || holding(v, false) > 0 || len(v.Applied) == 0
	}), nil
}
