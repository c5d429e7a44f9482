package teardown

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

const (
	// parallel is the number of objects that are deleted concurrently: each takes the cloud a while.
	parallel = 8
	// routesBatch is the number of routes that one request may change.
	routesBatch = 500
	// jobWait limits the wait for one load balancer.
	jobWait = 2 * time.Minute
)

// Execute deletes the items that the plan does not keep. It returns the error of each item at the item's index; a
// failed item does not stop the others. Node groups are deleted after the load balancers that refer to them.
func Execute(ctx context.Context, cloud *cloudapi.Client, plan []Item) []error {
	failed := make([]error, len(plan))
	for _, kind := range []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup} {
		var work errgroup.Group
		work.SetLimit(parallel)
		for i := range plan {
			if plan[i].Kind != kind || plan[i].Keep != "" {
				continue
			}
			work.Go(func() error {
				if plan[i].Balancer != nil {
					failed[i] = removeLoadBalancer(ctx, cloud, plan[i].Balancer)
				} else {
					failed[i] = removeNodeGroup(ctx, cloud, plan[i].Group)
				}
				return nil
			})
		}
		_ = work.Wait() // the errors are in failed: one must not cancel the others
	}
	// Routes have no revision to match: they are removed if they still have the same next hop.
	ChangeRoutes(ctx, cloud, plan, failed, func(batch *cloudv1.RoutesBatch, route *cloudv1.Route) {
		batch.Remove = append(batch.Remove, cloudv1.RouteRemoval{Destination: route.Destination, NextHop: &route.NextHop})
	})
	return failed
}

// removeLoadBalancer removes the deletion protection if the plan says so, deletes the load balancer and confirms that
// it is gone. If the load balancer changed in the meantime, this fails, and the next run plans again.
func removeLoadBalancer(ctx context.Context, cloud *cloudapi.Client, lb *cloudv1.LoadBalancer) error {
	ctx, cancel := context.WithTimeout(ctx, jobWait)
	defer cancel()
	conditions := cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: ours(lb.Tags)}
	if lb.DeletionProtection {
		off := false
		unprotected, job, err := cloud.PatchLoadBalancer(
			ctx, lb.ID, cloudv1.LoadBalancerPatch{DeletionProtection: &off}, conditions,
		)
		if err != nil {
			return fmt.Errorf("remove deletion protection: %w", err)
		}
		if err := cloud.WaitJob(ctx, job); err != nil {
			return fmt.Errorf("remove deletion protection: %w", err)
		}
		if job != "" {
			if unprotected, err = cloud.LoadBalancer(ctx, lb.ID); err != nil {
				return err
			}
		}
		conditions.IfMatch = unprotected.Revision
	}
	job, err := cloud.DeleteLoadBalancer(ctx, lb.ID, conditions)
	if cloudapi.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := cloud.WaitJob(ctx, job); err != nil {
		return err
	}
	_, err = cloud.LoadBalancer(ctx, lb.ID)
	switch {
	case cloudapi.IsAbsent(err):
		return nil
	case err != nil:
		return fmt.Errorf("confirm deletion: %w", err)
	}
	return errors.New("the cloud is still deleting it; run the command again")
}

func removeNodeGroup(ctx context.Context, cloud *cloudapi.Client, group *cloudv1.NodeGroup) error {
	err := cloud.DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: group.Revision, IfTags: ours(group.Tags)})
	if cloudapi.IsAbsent(err) {
		return nil
	}
	return err
}

// ChangeRoutes changes the routes that a plan does not keep, with one request for many of them, provided that they are
// still the cluster's. add adds the change of a route to a request. The errors are stored at the indexes of the items.
// That a route to remove is absent is none.
func ChangeRoutes(
	ctx context.Context, cloud *cloudapi.Client, plan []Item, failed []error,
	add func(*cloudv1.RoutesBatch, *cloudv1.Route),
) {
	tables := map[string][]int{}
	for i := range plan {
		if plan[i].Route != nil && plan[i].Keep == "" {
			tables[plan[i].Route.RouteTableID] = append(tables[plan[i].Route.RouteTableID], i)
		}
	}
	for table, places := range tables {
		for at := range slices.Chunk(places, routesBatch) {
			var batch cloudv1.RoutesBatch
			for _, i := range at {
				add(&batch, plan[i].Route)
			}
			tags := map[string]string{ownership.ClusterUID: plan[at[0]].Route.Tags[ownership.ClusterUID]}
			result, err := cloud.BatchRoutes(ctx, table, batch, cloudapi.WriteOptions{IfTags: tags})
			for n, i := range at {
				if failed[i] = err; err == nil {
					failed[i] = refusal(result.Results[n])
				}
			}
		}
	}
}

// refusal returns the error of a change, or nil.
func refusal(r cloudv1.RouteResult) error {
	if r.Error == nil {
		return nil
	}
	err := &cloudapi.Error{Method: r.Op, Path: r.Destination, Status: r.Status, Problem: r.Error}
	if r.Op == cloudv1.RouteRemove && cloudapi.IsAbsent(err) {
		return nil
	}
	return err
}

// ours returns the tags that make an object the cluster's, and a Service's.
func ours(tags map[string]string) map[string]string {
	kept := maps.Clone(tags)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, ownership.Prefix) })
	return kept
}
