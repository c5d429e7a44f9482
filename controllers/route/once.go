package route

import "context"

// Once compares all Nodes with all routes and makes the changes that are due, once. The Controller cannot run afterwards.
// The conditions of Nodes are not written.
func (c *Controller) Once(ctx context.Context) error {
	stop := c.connect(ctx)
	defer stop()
	defer c.queue.ShutDown()
	defer c.conditions.queue.ShutDown()
	_, err := c.pass(ctx, true)
	return err
}
