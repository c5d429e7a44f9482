package route

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"quaymaster.dev/controllers/worker"
)

// Connect does what Run does before it reconciles, for tests that call Pass and WriteConditions in place of Run.
func (c *Controller) Connect(ctx context.Context) (stop func()) { return c.connect(ctx) }

// Pass reconciles once.
func (c *Controller) Pass(ctx context.Context, checkDrift bool) (time.Duration, error) {
	return c.pass(ctx, checkDrift)
}

// WriteConditions writes the conditions that are due, and waits until the informer shows them: passes of a test follow each
// other at once, and a pass writes again what it does not see.
func (c *Controller) WriteConditions(ctx context.Context) {
	for c.conditions.queue.Len() > 0 {
		name, _ := c.conditions.queue.Get()
		result := c.conditions.process(ctx, name)
		c.conditions.queue.Done(name)
		if result != worker.Done() {
			continue
		}
		_ = wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			last, _ := c.conditions.wanted.Load(name)
			w, _ := last.(wanted)
			n, err := c.conditions.nodes.Get(name)
			return err != nil || n.UID != w.uid || w.holds(n), nil
		})
	}
}

// Synced reports whether all Nodes are known, and have been touched.
func (c *Controller) Synced() bool { return c.synced() }

// Knows reports whether the controller knows a Node.
func (c *Controller) Knows(name string) bool {
	_, err := c.o.Nodes.Lister().Get(name)
	return err == nil
}
