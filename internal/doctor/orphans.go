package doctor

import "context"

// abandoned checks that every load balancer of the cluster has a Service.
func (e *examination) abandoned(ctx context.Context) Result {
	if e.Orphans == nil {
		return skip("--cloud-config is not set")
	}
	orphans, err := e.Orphans(ctx)
	if err != nil {
		return warn("run quayctl orphans", "cannot find out whether every load balancer has a Service: %v", err)
	}
	if len(orphans) > 0 {
		return warn("find out whether their addresses are in use; quayctl orphans lists and deletes them",
			"%d load balancers have no Service", len(orphans)).with(firstOf(orphans))
	}
	return ok("every load balancer has a Service")
}
