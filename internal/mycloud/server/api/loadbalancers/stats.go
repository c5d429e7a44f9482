package loadbalancers

import (
	"cmp"
	"context"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

// loadBalancerStats adds up what all edges have reported, also those that are offline now: their traffic was real.
func (a *LoadBalancers) loadBalancerStats(_ context.Context, p *idParams) (*operation.Plain[cloudv1.Stats], error) {
	err := a.Read.Store.View(func(tx *store.Tx) error {
		_, err := store.LoadBalancers.Get(tx, p.ID)
		return failure.Absent(err)
	})
	if err != nil {
		return nil, err
	}
	all := a.Edges.Select(func(*edges.Edge) bool { return true })
	return &operation.Plain[cloudv1.Stats]{Body: cloudv1.Stats{Listeners: sum(all, p.ID)}}, nil
}

// sum returns the counters of a load balancer's listeners, sorted by key and family.
func sum(all []*edges.Edge, loadBalancer string) []cloudv1.ListenerCounter {
	type listener struct{ key, family string }
	at := map[listener]int{}
	total := []cloudv1.ListenerCounter{}
	for _, e := range all {
		for _, c := range e.CountersOf(loadBalancer) {
			id := listener{c.ListenerKey, c.Family}
			i, seen := at[id]
			if !seen {
				at[id] = len(total)
				total = append(total, c)
				continue
			}
			t := &total[i]
			t.Accepted += c.Accepted
			t.Refused += c.Refused
			t.BytesIn += c.BytesIn
			t.BytesOut += c.BytesOut
		}
	}
	slices.SortFunc(total, func(a, b cloudv1.ListenerCounter) int {
		return cmp.Or(cmp.Compare(a.ListenerKey, b.ListenerKey), cmp.Compare(a.Family, b.Family))
	})
	return total
}
