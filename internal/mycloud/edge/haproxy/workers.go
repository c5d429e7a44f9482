package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// Each reload leaves the worker before it until its connections end, an hour at the most. They are as many as there were
// reloads if clients stay for long. So changes that need a reload wait for others to share it with, the longer the more
// workers are left: those of a load balancer ownPause times the cube of the number that was left for its sake, of which
// those that were left for several count in part; and all of them pause times n*(n-1) with n old workers, but not for longer
// than sharedPause, so that no load balancer is held up for the sake of others. In an hour of changes under connections that do not
// end, one load balancer leaves six workers. Others have to wait for longer once many load balancers have left manyWorkers;
// by then, all together leave no more in an hour than there are, because each ends after an hour.
const (
	ownPause    = 15 * time.Second
	pause       = 400 * time.Millisecond
	sharedPause = 2 * time.Second
	manyWorkers = 60
	manyPause   = time.Minute
)

// pauseAfter returns the time between two reloads with a number of old workers.
func pauseAfter(old int) time.Duration {
	if old >= manyWorkers {
		return manyPause
	}
	return min(time.Duration(old*(old-1))*pause, sharedPause)
}

// reloaded says when HAProxy was reloaded, and for which load balancers.
type reloaded struct {
	at            time.Time
	loadBalancers []string
}

// Turn returns when the first of the changes that wait for a reload gets it, if none of them is made before; zero if nothing
// waits. Apply has to be called then.
func (e *Engine) Turn() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turn
}

// waiting returns the units whose changes wait for a reload, by key, and why.
func (e *Engine) waiting(waits func(loadBalancer string) error) map[string]error {
	found := map[string]error{}
	for _, u := range e.units {
		was, ok := e.running.Units[u.Key()]
		if ok && !u.NeedsReload(was) {
			continue
		}
		cause := u.LoadBalancer()
		if ok && u.Listener != nil && !slices.Equal(u.Listener.Allowed, was.Listener.Allowed) {
			// Clients must not get in for longer because their load balancer has changed before.
			cause = ""
		}
		if err := waits(cause); err != nil {
			found[u.Key()] = err
		}
	}
	return found
}

// waits returns a function that says why a load balancer must not cause a reload.
func (e *Engine) waits(p *process.Workers) func(loadBalancer string) error {
	if p == nil || e.running.Units == nil {
		// What HAProxy runs is not known yet.
		return func(string) error { return nil }
	}
	maps.DeleteFunc(e.left, func(worker int, _ reloaded) bool {
		return worker != p.Current && !slices.Contains(p.Old, worker)
	})
	number, last, latest := map[string]float64{}, map[string]time.Time{}, time.Time{}
	later := func(a, b time.Time) time.Time {
		if a.After(b) {
			return a
		}
		return b
	}
	for _, worker := range p.Old {
		r := e.left[worker]
		latest = later(latest, r.at)
		for _, id := range r.loadBalancers {
			number[id] += 1 / float64(len(r.loadBalancers))
			last[id] = later(last[id], r.at)
		}
	}
	now, all := e.Clock.Now(), len(p.Old)
	return func(loadBalancer string) error {
		own := time.Duration(math.Pow(number[loadBalancer], 3) * float64(ownPause))
		turn := later(last[loadBalancer].Add(own), latest.Add(pauseAfter(all)))
		if !now.Before(turn) {
			return nil
		}
		if e.turn.IsZero() || turn.Before(e.turn) {
			e.turn = turn
		}
		return &plan.WaitingError{Detail: fmt.Sprintf(
			"waits until %s, or until connections end that have outlasted %d reloads of haproxy",
			turn.UTC().Format(time.TimeOnly+" MST"), all)}
	}
}

// causes returns the load balancers for which HAProxy reloads. When the agent has just started, it does not know.
func (e *Engine) causes(p *plan.Plan, c *installed) []string {
	if e.running.Units == nil {
		return nil
	}
	found := maps.Clone(c.reload)
	now := make(map[string]bool, len(p.Units))
	for _, u := range p.Units {
		now[u.Key()] = true
		if was, ok := e.running.Units[u.Key()]; !ok || u.NeedsReload(was) {
			found[u.LoadBalancer()] = true
		}
	}
	// What is not wanted any more goes with any reload, and causes none.
	for _, u := range e.units {
		if _, ok := e.running.Units[u.Key()]; ok && !now[u.Key()] {
			found[u.LoadBalancer()] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// tend ends what must not go on: servers that have left, once they have no connections or their time to drain is over;
// and in old workers, which probe no members, connections to members that are down.
func (e *Engine) tend(ctx context.Context, p *process.Workers) error {
	if len(e.leaving) == 0 && len(p.Old) == 0 {
		return nil
	}
	now, shown := e.Clock.Now(), e.shown.Load()
	drains := map[string]time.Duration{}
	for i := range shown.pools {
		drains[plan.Unit{Pool: &shown.pools[i]}.Key()] = shown.pools[i].Drain
	}
	wanted := map[place]bool{}
	for i := range shown.plan.Backends {
		for j := range shown.plan.Backends[i].Servers {
			wanted[place{shown.plan.Backends[i].Name, shown.plan.Backends[i].Servers[j].Name}] = true
		}
	}
	rows, err := e.haproxy.Servers(ctx, p.Current)
	if err != nil {
		return err
	}
	seen, down := map[place]bool{}, map[place]bool{}
	var failed []error
	for _, row := range rows {
		at := place{row.Get("pxname"), row.Get("svname")}
		seen[at], down[at] = true, strings.HasPrefix(row.Get("status"), "DOWN")
		if deadline, ok := e.leaving[at]; ok && (row.Get("scur") == "0" || !now.Before(deadline)) {
			failed = append(failed, e.remove(ctx, p.Current, at))
		}
	}
	for _, worker := range p.Old {
		if rows, err = e.haproxy.Servers(ctx, worker); err != nil {
			// It has just ended.
			continue
		}
		ending := map[place]bool{}
		for _, row := range rows {
			at := place{row.Get("pxname"), row.Get("svname")}
			if row.Get("scur") == "0" {
				continue
			}
			seen[at] = true
			if _, ok := e.leaving[at]; !ok && !wanted[at] {
				e.leaving[at] = now.Add(drains[at.backend[:strings.LastIndex(at.backend, ":")+1]])
			}
			if deadline, ok := e.leaving[at]; down[at] || ok && !now.Before(deadline) {
				ending[at] = true
			}
		}
		if len(ending) > 0 {
			_ = e.end(ctx, worker, func(s session) bool { return ending[s.at] })
		}
	}
	maps.DeleteFunc(e.leaving, func(at place, _ time.Time) bool { return !seen[at] })
	return errors.Join(failed...)
}

// open has the worker accept connections for the listeners of the plan, and for no others. It returns those that it
// cannot change.
func (e *Engine) open(ctx context.Context, worker int, p *plan.Plan) ([]cloudv1.EdgeFault, error) {
	rows, err := e.haproxy.Frontends(ctx, worker)
	if err != nil {
		return nil, err
	}
	var faults []cloudv1.EdgeFault
	status := make(map[string]string, len(rows))
	for _, row := range rows {
		status[row.Get("pxname")] = row.Get("status")
	}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		switch isOpen := status[f.Name] == "OPEN"; {
		case f.Removed && isOpen:
			err = e.haproxy.Do(ctx, worker, "disable frontend "+f.Name)
		case !f.Removed && !isOpen:
			err = e.haproxy.Do(ctx, worker, "enable frontend "+f.Name)
		default:
			continue
		}
		if _, ok := errors.AsType[*process.CommandError](err); ok {
			u := plan.Unit{Listener: &f.Listener, Pool: &config.Pool{ID: f.Listener.Pool}}
			faults = append(faults, u.Fault(err))
		} else if err != nil {
			return nil, err
		}
	}
	return faults, nil
}
