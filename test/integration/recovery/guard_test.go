package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// samplePeriod is the time between two looks at a cluster.
const samplePeriod = 100 * time.Millisecond

// guard observes what no disaster may do: take or change an address that is published, publish one twice, or delete a
// Node. No test gives a reason for either.
type guard struct {
	client client.Client

	mu        sync.Mutex
	samples   int
	addresses map[types.UID]string
	nodes     map[string]types.UID
	problems  []string
}

// observe looks at the cluster until the test ends.
func observe(t *testing.T, c client.Client) *guard {
	t.Helper()
	g := &guard{client: c, addresses: map[types.UID]string{}, nodes: map[string]types.UID{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(samplePeriod)
		defer ticker.Stop()
		for ctx.Err() == nil {
			g.sample(ctx)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		g.check(t)
	})
	return g
}

// sample looks once. An API server that does not answer shows nothing.
func (g *guard) sample(ctx context.Context) {
	var services corev1.ServiceList
	var nodes corev1.NodeList
	if g.client.List(ctx, &services) != nil || g.client.List(ctx, &nodes) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.samples++
	owners := map[string]string{}
	for i := range services.Items {
		svc := &services.Items[i]
		now := strings.Join(addresses(svc), " ")
		if before := g.addresses[svc.UID]; before != "" && now != before {
			g.problem("service %s published %q instead of %q", svc.Name, now, before)
		}
		g.addresses[svc.UID] = now
		for _, address := range addresses(svc) {
			if other := owners[address]; other != "" {
				g.problem("services %s and %s both published %s", other, svc.Name, address)
			}
			owners[address] = svc.Name
		}
	}
	found := map[string]types.UID{}
	for _, node := range nodes.Items {
		found[node.Name] = node.UID
	}
	for name, uid := range g.nodes {
		if found[name] != uid {
			g.problem("node %s was deleted", name)
		}
	}
	g.nodes = found
}

func (g *guard) problem(format string, args ...any) {
	g.problems = append(g.problems, fmt.Sprintf(format, args...))
}

// check reports what was observed since the last call.
func (g *guard) check(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.samples == 0 {
		t.Error("the cluster was not observed")
	}
	slices.Sort(g.problems)
	for _, problem := range slices.Compact(g.problems) {
		t.Error(problem)
	}
	g.problems = nil
}

func addresses(svc *corev1.Service) (list []string) {
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		list = append(list, ingress.IP)
	}
	return list
}
