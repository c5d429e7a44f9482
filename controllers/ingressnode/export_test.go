package ingressnode

import (
	"context"
	"time"
)

// Sync syncs until nothing is left to do at once, so that a test with its own clock knows when it has ended.
func (c *Controller) Sync(ctx context.Context, checkDrift bool) (time.Duration, error) {
	return c.syncAll(ctx, checkDrift)
}

// Request requests a group without waiting for it.
func (c *Controller) Request(group string) { c.request(group) }

// Remembered returns how many groups the controller remembers.
func (c *Controller) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(len(c.requests), len(c.ids), len(c.turns.last), len(c.turns.asked))
}

// NoteDeletion passes on what an informer reports about a Node that it no longer has.
func (c *Controller) NoteDeletion(obj any) { c.deletions.note(obj, c.o.InstanceID) }
