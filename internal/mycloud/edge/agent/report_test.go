package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// createHuge creates a load balancer with pools of members. The keys of the pools take six times as much space in JSON.
func (w *world) createHuge(name string, pools, members int, zone string) *cloudv1.LoadBalancer {
	w.Helper()
	s := cloudv1.LoadBalancerSpec{Name: name, LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{},
	}}
	for i := range pools {
		p := cloudv1.Pool{
			Key: fmt.Sprintf("%02d", i) + strings.Repeat("<", 250), Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP,
			Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 30080,
		}
		for j := range members {
			p.Members = append(p.Members, cloudv1.Member{
				Key: fmt.Sprintf("%04d", j), Address: "10.0.0.1", Port: 30080, Weight: 1, State: cloudv1.MemberActive, Zone: zone,
			})
		}
		s.Pools = append(s.Pools, p)
	}
	lb, _, err := w.cloud.Client.CreateLoadBalancer(w.Context(), s, cloudapi.WriteOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return lb
}

// However much there is, an edge that is new gets its state: 70 MiB here, in pages that a client reads.
func TestHugeLists(t *testing.T) {
	w := newWorld(t)
	w.stop()
	for i := range 18 {
		w.createHuge(fmt.Sprintf("huge-%02d", i), 1, 16, strings.Repeat("z", 250_000))
	}
	w.start()
	w.until("announce 18")
}

// However many members a load balancer has, the cloud hears from the edge and gets the health of all members: 42 MiB here.
func TestHugeHeartbeats(t *testing.T) {
	w := newWorld(t)
	web, huge := w.create("web"), w.createHuge("huge", 25, 1000, "")
	w.until("announce 2")
	w.machine.set(func() {
		w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
			LoadBalancerID: web.ID, PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: "b", State: cloudv1.OperatingOffline,
		})
		for _, p := range huge.Pools {
			for _, m := range p.Members {
				w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
					LoadBalancerID: huge.ID, PoolKey: p.Key, Family: p.Family, MemberKey: m.Key, State: cloudv1.OperatingOffline,
				})
			}
		}
	})
	// One read of the health takes as much of the server as a heartbeat.
	offline := func(id string, want int) {
		t.Helper()
		got := -1
		for deadline := time.Now().Add(3 * time.Minute); got != want; time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d members are offline, want %d", got, want)
			}
			health, err := w.cloud.Client.LoadBalancerHealth(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			got = 0
			for _, p := range health.Pools {
				for _, m := range p.Members {
					if m.OperatingState == cloudv1.OperatingOffline {
						got++
					}
				}
			}
		}
	}
	offline(web.ID, 1)
	offline(huge.ID, 25_000)
	w.machine.set(func() { w.machine.health = w.machine.health[:1] })
	offline(huge.ID, 0)
	offline(web.ID, 1)
	if state := w.edge().State; state != cloudv1.EdgeActive {
		t.Errorf("the edge is %s", state)
	}
}

// If there is more than fits, the same part of each load balancer is reported.
func TestShare(t *testing.T) {
	w := newWorld(t)
	small := w.create("small")
	w.until("announce 1")
	w.machine.set(func() {
		for i := range 150_000 {
			w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
				LoadBalancerID: "lb-0", PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: fmt.Sprint(i), State: cloudv1.OperatingOnline,
			})
		}
		w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
			LoadBalancerID: small.ID, PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: "b", State: cloudv1.OperatingOffline,
		})
	})
	w.eventually("the cloud knows the small one", func() bool {
		health, err := w.cloud.Client.LoadBalancerHealth(t.Context(), small.ID)
		return err == nil && health.Pools[0].Members[1].OperatingState == cloudv1.OperatingOffline
	})
}

// TestAnnouncements: the cloud hears what the edge announces when that changes, and again with the counters: the heartbeat with
// the news may have gone to a server of a version that does not pass it on.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var heard [][]string
	// beats counts heartbeats, of which some have neither counters nor announcements, and some both.
	beats, short, full := 0, 0, 0
	w.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ":heartbeat") {
			return false
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var h cloudv1.Heartbeat
		if err != nil || json.Unmarshal(body, &h) != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		beats++
		switch {
		case h.Announced == nil && h.Counters == nil:
			short++
		case h.Announced != nil && h.Counters != nil:
			full++
		}
		if h.Announced != nil {
			heard = append(heard, *h.Announced)
		}
		return false
	})
	announces := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		w.eventually(fmt.Sprintf("the cloud hears of %v", want), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) > 0 && slices.Equal(heard[len(heard)-1], want)
		})
	}
	first := w.create("first")
	announces(first.Addresses()...)
	second := w.create("second")
	announces(append(first.Addresses(), second.Addresses()...)...)
	w.delete(first.ID)
	announces(second.Addresses()...)

	mu.Lock()
	again, begin, brief := full, beats, short
	mu.Unlock()
	w.eventually("the cloud hears of it again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return full > again
	})
	mu.Lock()
	defer mu.Unlock()
	if short-brief < 2 || beats-begin-(short-brief) > 2 {
		t.Errorf("%d of %d heartbeats repeat nothing", short-brief, beats-begin)
	}
}
