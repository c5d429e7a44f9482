package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/kube/brakes"
)

// brake returns the removals that may be made now: none if too many of them are unexplained, as after an incomplete
// list of Nodes, until an operator resumes removals or the unexplained ones are gone.
func (c *Controller) brake(ctx context.Context, removals []removal) []removal {
	logger := klog.FromContext(ctx)
	unexplained := 0
	for _, r := range removals {
		if !c.explained(r) {
			unexplained++
		}
	}
	if unexplained > c.removed.Room(len(c.routes), c.o.Clock.Now()) {
		message := fmt.Sprintf("%d of %d routes lead to instances without nodes, but the deletion of these nodes was not "+
			"seen; no route is removed", unexplained, len(c.routes))
		if err := c.o.Brake.Engage(ctx, brakes.Routes, message); err != nil {
			logger.Error(err, "Could not store the brake, removals stop nevertheless")
		}
	}
	_, _, engaged := c.o.Brake.Engaged(brakes.Routes)
	switch {
	case engaged && unexplained > 0:
		return nil
	case engaged:
		if err := c.o.Brake.Release(ctx, brakes.Routes); err != nil {
			logger.Error(err, "Could not release the brake, will retry")
			return nil
		}
	}
	return removals
}

// apply makes changes and remembers the results. removals has the routes to remove by destination.
func (c *Controller) apply(ctx context.Context, changes []Change, removals map[netip.Prefix]removal) {
	if len(changes) == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	written, removed, failed, unexplained := 0, 0, 0, 0
	errs := c.o.Table.Change(ctx, changes)
	now := c.o.Clock.Now()
	for i, err := range errs {
		change := changes[i]
		if err != nil {
			failed++
			c.attempts.failed(change, err, now)
			logger.Error(err, "Could not change route, will retry", "destination", change.Destination,
				"instance", change.Hop.InstanceID, "remove", change.Remove)
			if refused := (*RefusedError)(nil); !errors.As(err, &refused) {
				// It is unknown whether the change took place.
				c.loaded = false
			}
			continue
		}
		c.revision = ""
		delete(c.attempts, change.Destination)
		if !change.Remove {
			written++
			c.routes[change.Destination] = change.Route
			continue
		}
		removed++
		delete(c.routes, change.Destination)
		r := removals[change.Destination]
		if !c.explained(r) {
			unexplained++
		}
		logger.Info("Removed route", "destination", r.Destination, "instance", r.Hop.InstanceID, "cause", r.cause)
	}
	c.removed.Spend(unexplained, now)
	logger.Info("Changed routes", "written", written, "removed", removed, "failed", failed, "routes", len(c.routes))
}

// report passes on what has become of the routes of each Node, and whether that is the result of an attempt after
// start.
func (c *Controller) report(d decision, nodes map[string]*corev1.Node, start time.Time) {
	for name, r := range d.results {
		problems, attempted := r.problems, false
		for _, destination := range r.wanted {
			failed := c.attempts[destination]
			if failed == nil {
				continue // it has just been written
			}
			attempted = attempted || !failed.at.Before(start)
			one := problem{Reason: reasonFailed, Message: summary(failed.err)}
			if refused := (*RefusedError)(nil); errors.As(failed.err, &refused) {
				one = problem(*refused)
			}
			problems = append(problems, one)
		}
		c.conditions.set(nodes[name], problems, attempted)
	}
	c.conditions.forgetAllBut(nodes)
}

// summary returns the text of an error without what differs with every attempt, such as the id of the request: repeated
// Events with the same text are counted instead of stored.
func summary(err error) string {
	var s interface{ Summary() string }
	if errors.As(err, &s) {
		return s.Summary()
	}
	return err.Error()
}

// budget limits the removals of routes without an explanation.
var budget = brakes.Budget{Percent: 20, Window: 10 * time.Minute}

// departureKept is how long the deletion of a Node explains the removal of its routes.
const departureKept = 24 * time.Hour

// explained reports whether a removal follows from something that was observed, rather than from the absence of a Node:
// from the deletion of the Node or of the instance.
func (c *Controller) explained(r removal) bool {
	_, seen := c.departures.Get(r.Hop.InstanceID)
	return r.Dead || seen
}
