package agent_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

// web creates a load balancer that needs the proxy, and returns it.
func (w *world) web(name string) *cloudv1.LoadBalancer {
	w.Helper()
	lb, _ := w.post(name, cloudv1.ProtocolHTTP, "c")
	return lb
}

func addressOf(lb *cloudv1.LoadBalancer) netip.Addr { return netip.MustParseAddr(lb.VIPs[0].Address) }

// faultsOf returns the details of the faults of a load balancer, or of the edge itself for an empty id.
func (w *world) faultsOf(id string) []string {
	w.Helper()
	var list []string
	for _, f := range w.edge().Faults {
		if f.LoadBalancerID == id {
			list = append(list, f.Detail)
		}
	}
	return list
}

// announced returns the addresses that were announced last.
func (w *world) announced() []netip.Addr {
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return slices.Clone(w.machine.announced)
}

// What announces may hang: other changes and health are applied, what it concerns has a fault, and an address that may
// still be announced is not free.
func TestAnnouncerHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create("first")
	doomed := w.create("doomed")
	w.until("announce 2")
	hang := make(chan struct{})
	w.machine.set(func() { w.machine.hang = hang })
	w.delete(doomed.ID)
	w.until("kernel 1")
	start := time.Now()
	second, _ := w.begin("second")
	w.until("kernel 2")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("another change took %s", took)
	}
	w.state(first, "b", cloudv1.OperatingOffline)
	w.eventually("health is applied", func() bool { return strings.Count(strings.Join(w.healthy(), ""), "b") == 1 })
	w.eventually("the address that goes is a fault", func() bool {
		return slices.ContainsFunc(w.faultsOf(doomed.ID), func(d string) bool { return strings.Contains(d, "may still be announced") })
	})
	w.eventually("the new address is a fault", func() bool {
		return slices.ContainsFunc(w.faultsOf(second.ID), func(d string) bool { return strings.Contains(d, "is not announced") })
	})
	if got := w.faultsOf(first.ID); len(got) > 0 {
		t.Errorf("another load balancer has faults: %q", got)
	}
	w.eventually("the edge says that it is stuck", func() bool {
		return slices.Contains(w.faultsOf(""), "addresses are being announced for more than 10s")
	})
	close(hang)
	w.eventually("all is well again", func() bool { return len(w.edge().Faults) == 0 })
	if got := w.announced(); len(got) != 2 || slices.Contains(got, addressOf(doomed)) {
		t.Errorf("announced %v", got)
	}
}

// While the traffic of addresses that are given up goes elsewhere, which takes seconds, the changes of others are applied, and
// their jobs end. The addresses stay, and are not free, until then.
func TestDeletionsDelayNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create("first")
	var doomed []*cloudv1.LoadBalancer
	for i := range 3 {
		doomed = append(doomed, w.create(fmt.Sprint("doomed-", i)))
	}
	w.until("announce 4")
	const settle = time.Minute
	w.machine.set(func() { w.machine.settle = settle })
	answers := func(lb *cloudv1.LoadBalancer) bool {
		w.machine.mu.Lock()
		defer w.machine.mu.Unlock()
		return slices.Contains(w.machine.answered, addressOf(lb))
	}
	for i, lb := range doomed {
		start := time.Now()
		w.delete(lb.ID)
		w.eventually("its address is withdrawn", func() bool { return !slices.Contains(w.announced(), addressOf(lb)) })
		next := w.create(fmt.Sprint("next-", i))
		w.eventually("the next one is announced", func() bool { return slices.Contains(w.announced(), addressOf(next)) })
		if took := time.Since(start); took > settle/2 {
			t.Errorf("another load balancer took %s", took)
		}
		if !answers(lb) || !answers(next) {
			t.Errorf("the edge answers for the old address: %v, for the new one: %v", answers(lb), answers(next))
		}
	}
	for _, lb := range doomed {
		if got := w.faultsOf(lb.ID); len(got) != 1 || !strings.Contains(got[0], "stays until its traffic has gone") {
			t.Errorf("the address of a deleted load balancer is free: faults %q", got)
		}
	}
	if got := w.faultsOf(first.ID); len(got) > 0 {
		t.Errorf("another load balancer has faults: %q", got)
	}
}

// An address that is given up goes once its traffic has gone, although nothing else changes.
func TestWithdrawnAddressGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("doomed")
	w.until("announce 1")
	w.machine.set(func() { w.machine.settle = 700 * time.Millisecond })
	w.delete(lb.ID)
	start := time.Now()
	w.until("addresses 0")
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
	w.eventually("it is free", func() bool { return len(w.edge().Faults) == 0 })
}

// Health that is not read any more is not claimed any more.
func TestHealthIsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("first")
	w.state(lb, "b", cloudv1.OperatingOffline)
	known := func() bool {
		health, err := w.cloud.Client.LoadBalancerHealth(w.Context(), lb.ID)
		return err == nil && len(health.Pools) == 1 && slices.ContainsFunc(health.Pools[0].Members, func(m cloudv1.Member) bool {
			return m.Key == "b" && m.OperatingState == cloudv1.OperatingOffline
		})
	}
	w.eventually("the cloud knows", known)
	w.machine.set(func() { w.machine.probeErr = errors.New("it does not answer") })
	w.eventually("the cloud does not know", func() bool { return !known() })
	w.eventually("the edge says why", func() bool {
		return slices.Contains(w.faultsOf(""), "the health of members has not been read for more than 10s")
	})
	w.machine.set(func() { w.machine.probeErr = nil })
	w.eventually("the cloud knows again", known)
}

// What is announced follows from what is served: without its proxy, a load balancer is left to other edges, and those
// that need none are served.
func TestProxyIsDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, web := w.create("first"), w.web("web")
	w.until("announce 2")
	w.machine.set(func() { w.machine.servesErr = errors.New("it does not run") })
	w.until("announce 1")
	if got := w.announced(); !slices.Equal(got, []netip.Addr{addressOf(first)}) {
		t.Errorf("announced %v, want %v only", got, addressOf(first))
	}
	w.machine.set(func() { w.machine.err = errors.New("it does not start") })
	// Its job succeeds.
	w.create("second")
	w.until("announce 2")
	w.eventually("the fault is that of what needs the proxy", func() bool { return len(w.faultsOf(web.ID)) == 1 })
	if got := w.faultsOf(first.ID); len(got) > 0 {
		t.Errorf("another load balancer has faults: %q", got)
	}
	w.machine.set(func() { w.machine.servesErr, w.machine.err = nil, nil })
	w.until("announce 3")
	w.eventually("all is well again", func() bool { return len(w.edge().Faults) == 0 })
}

// A change that waits for others is made in its turn, and not only when what has failed is tried again.
func TestWaitingChangeTakesItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.until("announce 0")
	w.machine.set(func() { w.machine.turn = time.Now().Add(500 * time.Millisecond) })
	w.web("web")
	w.until("proxy 1")
	start := time.Now()
	w.until("proxy 1")
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the turn was missed by %s", took)
	}
	w.eventually("the fault is gone", func() bool { return len(w.edge().Faults) == 0 })
}

// An address of which no listener is served is not announced.
func TestListenerIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create("first")
	w.machine.set(func() { w.machine.refuse = true })
	w.web("web")
	w.until("addresses 2")
	w.eventually("the other one is announced", func() bool { return slices.Equal(w.announced(), []netip.Addr{addressOf(first)}) })
	w.machine.set(func() { w.machine.refuse = false })
	w.begin("third")
	w.until("announce 3")
}

// A state that changes nothing for the edge, such as the health that another one sees, costs no write of everything.
func TestOtherEdgesCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("first")
	w.until("announce 1")
	path := filepath.Join(w.dir, "state.json")
	kept := func() os.FileInfo {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	w.eventually("the state is kept", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	time.Sleep(200 * time.Millisecond)
	before := kept()
	own := strings.Repeat("2", 26)
	e, err := as(t, w.cloud, cloud.RegistrationToken).
		RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-2", Token: own}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := as(t, w.cloud, own)
	for i := range 5 {
		state := []string{cloudv1.OperatingOnline, cloudv1.OperatingOffline}[i%2]
		health := []cloudv1.MemberHealth{{LoadBalancerID: "lb-x", PoolKey: "tcp/80", Family: "ipv4", MemberKey: "a", State: state}}
		if _, err := client.Heartbeat(t.Context(), e.ID, cloudv1.Heartbeat{Health: &health}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	number := func(revision string) int {
		n, _ := strconv.Atoi(strings.Split(revision, ".")[0])
		return n
	}
	w.eventually("the edge has seen it", func() bool {
		list, err := client.ListEdges(t.Context(), cloudapi.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			return false
		}
		slices.SortFunc(list.Items, func(a, b cloudv1.Edge) int { return strings.Compare(a.Name, b.Name) })
		return number(list.Items[0].AppliedRevision) >= number(list.Items[1].Revision)
	})
	if !kept().ModTime().Equal(before.ModTime()) {
		t.Error("the state was written again")
	}
}

// A listener that moved between engines has counters of both, which are one metric.
func TestCountersOfBothEngines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("first")
	w.machine.set(func() { w.machine.counted = 2 })
	w.eventually("the counters are added", func() bool {
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "mycloud_edge_accepted_total" && len(f.Metric) == 1 {
				return f.Metric[0].GetCounter().GetValue() == 9
			}
		}
		return false
	})
}

// What load balancers had beyond their shares is a metric.
func TestOverflowsAreMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("first")
	w.eventually("they are there", func() bool {
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				values[f.GetName()] = m.GetCounter().GetValue()
			}
		}
		return values["mycloud_edge_share_refused_total"] == 3 && values["mycloud_edge_share_forgotten_total"] == 4
	})
}

// as returns a client of the cloud with a token.
func as(t *testing.T, c *cloud.Cloud, token string) *cloudapi.Client {
	t.Helper()
	client, err := cloudapi.New(cloudapi.Options{Endpoint: c.Endpoint, Token: cloudapi.StaticToken(token)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
