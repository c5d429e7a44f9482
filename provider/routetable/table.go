// Package routetable is the part of a route table in the cloud that belongs to this cluster.
package routetable

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
)

// batchSize is the number of routes of a page, of changes of a request, and of instances of a lookup.
const batchSize = 500

// Table is this cluster's part of a route table. Its routes have the cluster's tag.
type Table struct {
	cloud   *cloudapi.Client
	watch   *mirror.Watch
	cluster *ownership.Cluster
	id      string

	// mark is that of the last list. Only List uses it.
	mark mirror.Mark
}

var _ route.Table = (*Table)(nil)

// New returns the cluster's part of the route table with the id. watch is that of routes.
func New(cloud *cloudapi.Client, watch *mirror.Watch, cluster *ownership.Cluster, id string) *Table {
	return &Table{cloud: cloud, watch: watch, cluster: cluster, id: id}
}

// InstanceOf returns the instance in a provider ID, or false if the provider ID is not one of mycloud.
func InstanceOf(providerID string) (string, bool) {
	id, err := providerid.Parse(providerID)
	return id, err == nil
}

// List implements route.Table. A route whose destination cannot be read is left out. List needs no request if the cloud
// has reported no change since the last list. It must not be called concurrently.
func (t *Table) List(ctx context.Context, since string) ([]route.Route, string, bool, error) {
	if since != "" && t.watch.Quiet(t.mark) {
		return nil, since, false, nil
	}
	mark := t.watch.Mark()
	tags, err := t.cluster.Tags(ctx)
	if err != nil {
		return nil, "", false, err
	}
	ctx = cloudapi.WithClass(ctx, cloudapi.Safety) // without a list, no route can be changed
	list, err := t.cloud.ListRoutes(ctx, t.id,
		cloudapi.ListOptions{Tags: tags, IfNoneMatch: since, PageSize: batchSize})
	if errors.Is(err, cloudapi.ErrNotModified) {
		t.mark = mark
		return nil, since, false, nil
	}
	if err != nil {
		return nil, "", false, err
	}
	t.mark = mark
	routes := make([]route.Route, 0, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		destination, err := netip.ParsePrefix(item.Destination)
		if err != nil || !ownership.Bears(item.Tags, tags) {
			continue
		}
		routes = append(routes, route.Route{
			Destination: destination, Hop: route.Hop(item.NextHop), Dead: item.State == cloudv1.RouteBlackhole,
		})
	}
	return routes, list.Revision, true, nil
}

// Hostnames implements route.Table. A deleted instance has no hostname.
func (t *Table) Hostnames(ctx context.Context, instanceIDs []string) (map[string]string, error) {
	ctx = cloudapi.WithClass(ctx, cloudapi.Safety)
	hostnames := make(map[string]string, len(instanceIDs))
	for ids := range slices.Chunk(instanceIDs, batchSize) {
		found, err := t.cloud.LookupInstances(ctx, cloudv1.LookupRequest{IDs: ids})
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			if instance := &found.Items[i]; instance.State != cloudv1.InstanceDeleted {
				hostnames[instance.ID] = instance.Hostname
			}
		}
	}
	return hostnames, nil
}

// refusal returns what the cloud answers about one change as an error for the controller. Nil means that what the
// change asks for holds: there is no such route any more.
func refusal(change route.Change, problem *cloudv1.Problem) error {
	if problem == nil {
		return nil
	}
	message := func(text string) error {
		return &route.RefusedError{
			Reason: reason(problem.Code), Message: fmt.Sprintf("route %s: %s", change.Destination, text),
		}
	}
	switch problem.Code {
	case cloudv1.CodeResourceNotFound, cloudv1.CodeConflict:
		if change.Remove {
			return nil
		}
	case cloudv1.CodeDestinationTaken:
		return message(problem.Detail + "; remove that route, or give the node a different pod CIDR")
	}
	failed := cloudapi.Error{Method: "change", Path: change.Destination.String(), Status: problem.Status, Problem: problem}
	return message(failed.Summary())
}

// reason returns the reason of a Node's condition.
func reason(code string) string {
	if code == cloudv1.CodeDestinationTaken {
		return "DestinationTaken"
	}
	return "NoRouteCreated"
}
