package route

import (
	"time"

	"quaymaster.dev/internal/kube/brakes"
)

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
