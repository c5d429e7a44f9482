package route

import (
	"context"
	"time"
)

// Connect does what Run does before it reconciles, for tests that call Pass and WriteConditions in place of Run.
func (c *Controller) Connect(ctx context.Context) (stop func()) { return c.connect(ctx) }

// Pass reconciles once.
func (c *Controller) Pass(ctx context.Context, checkDrift bool) (time.Duration, error) {
	return c.pass(ctx, checkDrift)
}

// WriteConditions writes the conditions that are due.
func (c *Controller) WriteConditions(ctx context.Context) {
	for c.conditions.queue.Len() > 0 {
		name, _ := c.conditions.queue.Get()
		c.conditions.process(ctx, name)
		c.conditions.queue.Done(name)
	}
}

// Synced reports whether all Nodes are known, and have been touched.
func (c *Controller) Synced() bool { return c.synced() }

// Knows reports whether the controller knows a Node.
func (c *Controller) Knows(name string) bool {
	_, err := c.o.Nodes.Lister().Get(name)
	return err == nil
}
