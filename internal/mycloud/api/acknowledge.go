package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/edges"
	"quaymaster.dev/internal/mycloud/jobs"
	"quaymaster.dev/internal/mycloud/store"
)

const (
	// applyLimit is how long a job waits for edges of which none has applied it.
	applyLimit = 30 * time.Second
	// repairPause is how long the repair of load balancers waits after a failed write.
	repairPause = time.Second
)

// AwaitEdges waits until the edges have done what a job is for, and returns nil or why they have not. The time counts
// from the call: a server that starts knows nothing of its edges.
func (a *API) AwaitEdges(ctx context.Context, j *cloudv1.Job) *cloudv1.Problem {
	// An edge that is about to leave need not apply anything, but must have stopped to serve what is deleted.
	concerned := (*edges.Edge).Live
	if j.Name == deleteJob {
		concerned = (*edges.Edge).Online
	}
	start := a.Clock.Now()
	for {
		news := a.edges.Changed()
		v := edges.ProgressOf(a.edges.Select(concerned), j.Target.ID, number(j.TargetRevision))
		wait, succeeded := decide(v, j.Name == deleteJob, a.Clock.Since(start))
		switch {
		case succeeded:
			return nil
		case wait == 0:
			return a.edgeFault(ctx, j, v)
		case !a.sleep(ctx, wait, news):
			return nil
		}
	}
}

// decide returns how long a job waits for edges; 0 if it has ended, and whether it succeeded.
func decide(v edges.Progress, deletion bool, waited time.Duration) (wait time.Duration, succeeded bool) {
	waiting := len(v.Waiting)
	if deletion {
		// An edge that cannot remove the load balancer may try again.
		waiting += len(v.Faulty)
	}
	switch {
	case waiting == 0:
		return 0, deletion || len(v.Applied) > 0 || len(v.Faulty) == 0
	case deletion:
	case waited < balancer.ApplyTime:
		return balancer.ApplyTime - waited, false
	case len(v.Applied) > 0:
		// The load balancer is degraded until the others have applied it, too.
		return 0, true
	case len(v.Faulty) > 0:
		return 0, false
	}
	return max(0, applyLimit-waited), false
}

// edgeFault returns the problem of a job that edges have not done.
func (a *API) edgeFault(ctx context.Context, j *cloudv1.Job, v edges.Progress) *cloudv1.Problem {
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
		texts = append(texts, fmt.Sprintf("edge %q has not applied revision %s in time", e.Name, j.TargetRevision))
	}
	p.Detail = strings.Join(texts, "; ")
	return p
}

// listenersOf returns the keys of a load balancer's listeners; nil if it does not exist.
func (a *API) listenersOf(ctx context.Context, id string) []string {
	var keys []string
	err := a.Store.View(func(tx *store.Tx) error {
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

// RepairLoadBalancers ends the faults of load balancers that edges have applied after their jobs had failed, until ctx is
// done.
func (a *API) RepairLoadBalancers(ctx context.Context) {
	for {
		news := a.edges.Changed()
		var pause time.Duration
		if err := a.repair(); err != nil {
			a.Logger.ErrorContext(ctx, "Could not repair load balancers", "error", err)
			pause = repairPause
		}
		if !a.sleep(ctx, pause, news) {
			return
		}
	}
}

func (a *API) repair() error {
	var repaired []*cloudv1.LoadBalancer
	find := func(tx *store.Tx) error {
		repaired = nil
		faulty, err := store.LoadBalancers.Having(tx, store.FaultTerm(cloudv1.CodeEdgeFault))
		if err != nil || len(faulty) == 0 {
			return err
		}
		live := a.edges.Select((*edges.Edge).Live)
		for _, lb := range faulty {
			applied := len(edges.ProgressOf(live, lb.ID, number(lb.Revision)).Applied) > 0
			if applied && lb.ProvisioningState == cloudv1.ProvisioningError && jobs.Last(tx, target(lb)) == "" {
				repaired = append(repaired, lb)
			}
		}
		return nil
	}
	if err := a.Store.View(find); err != nil || len(repaired) == 0 {
		return err
	}
	return a.Store.Update(func(tx *store.Tx) error {
		if err := find(tx); err != nil {
			return err
		}
		for _, lb := range repaired {
			lb.ProvisioningState, lb.Fault = cloudv1.ProvisioningActive, nil
			if err := releaseAddresses(tx, lb); err != nil {
				return err
			}
			if _, err := store.LoadBalancers.Put(tx, lb); err != nil {
				return err
			}
		}
		return nil
	})
}
