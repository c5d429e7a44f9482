package cloud

import (
	"context"

	"quaymaster.dev/internal/tool/doctor"
)

// Orphans checks that every load balancer of the cluster has a Service.
func (c *Checks) Orphans(ctx context.Context) doctor.Result {
	if c.ListOrphans == nil {
		return doctor.Skipped("--cloud-config is not set")
	}
	orphans, err := c.ListOrphans(ctx)
	if err != nil {
		return doctor.Warned("run quayctl orphans", "cannot find out whether every load balancer has a Service: %v", err)
	}
	if len(orphans) > 0 {
		return doctor.Warned("find out whether their addresses are in use; quayctl orphans lists and deletes them",
			"%d load balancers have no Service", len(orphans)).With(orphans)
	}
	return doctor.Passed("every load balancer has a Service")
}
