package ingressnode

import (
	"context"
	"slices"
)

// Once syncs the groups of the cloud and the named ones, once. The Controller cannot run afterwards. As after a start of
// Run, the brake does not let members leave yet.
func (c *Controller) Once(ctx context.Context, groups ...string) error {
	defer c.queue.ShutDown()
	for _, group := range slices.Sorted(slices.Values(groups)) {
		c.request(group)
	}
	_, err := c.sync(ctx, true)
	return err
}
