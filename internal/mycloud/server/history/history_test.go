package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
)

// world is a history with edges that report when the test says so.
type world struct {
	clock *clocktesting.FakeClock
	known *edges.Registry
	*History
}

func newWorld() *world {
	c := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC))
	known := edges.New(c, 2*time.Second)
	return &world{c, known, New(c, known, func(fn func(func(string) bool)) error {
		fn(func(id string) bool { return strings.HasPrefix(id, "lb-") })
		return nil
	})}
}

func (w *world) register(id string) {
	w.known.Put(&cloudv1.Edge{Object: cloudv1.Object{ID: id, Name: id, Revision: "1"}, State: cloudv1.EdgeActive}, true)
}

// beat reports counters two seconds after the last heartbeat; nil for no change.
func (w *world) beat(edge string, counters ...cloudv1.ListenerCounter) {
	w.clock.Step(2 * time.Second)
	h := &cloudv1.Heartbeat{}
	if counters != nil {
		h.Counters = &counters
	}
	w.known.Report(edge, 1, h)
	_ = w.look()
}

func counter(lb string, accepted, refused uint64) cloudv1.ListenerCounter {
	return cloudv1.ListenerCounter{
		LoadBalancerID: lb, ListenerKey: "tcp/80", Family: cloudv1.FamilyIPv4, Accepted: accepted, Refused: refused, BytesIn: accepted * 10, BytesOut: accepted * 100,
	}
}

// sum returns the requests in a series.
func sum(s Series) (accepted, refused float64) {
	for _, p := range s.Points {
		accepted += float64(p.Accepted) * s.Step.Seconds()
		refused += float64(p.Refused) * s.Step.Seconds()
	}
	return math.Round(accepted), math.Round(refused)
}

func (w *world) wants(t *testing.T, what, lb string, accepted, refused float64) {
	t.Helper()
	w.clock.Step(2*time.Minute + settle)
	for _, r := range Ranges {
		s, kept := w.Of(lb, r)
		if a, b := sum(s); a != accepted || b != refused || !kept {
			t.Errorf("%s, %s: %v accepted and %v refused, kept %t, want %v and %v", what, r.Name, a, b, kept, accepted, refused)
		}
	}
}

// TestCounts: what an edge counted before its first heartbeat is not traffic of now; counters that decrease have begun again.
func TestCounts(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	w.beat("edge-1")
	w.beat("edge-1", counter("lb-1", 1000, 50))
	w.beat("edge-1", counter("lb-1", 1010, 53))
	w.beat("edge-1")
	w.beat("edge-1", counter("lb-1", 1030, 53))
	w.wants(t, "counted", "lb-1", 30, 3)

	w.beat("edge-1", counter("lb-1", 7, 1))
	w.wants(t, "after the engine of the edge started again", "lb-1", 37, 4)

	w.beat("edge-1", counter("lb-1", 7, 1), counter("lb-2", 5, 0))
	w.wants(t, "a new load balancer", "lb-2", 5, 0)
	if a, b := sum(w.Total(Ranges[0])); a != 42 || b != 4 {
		t.Errorf("all load balancers: %v accepted and %v refused", a, b)
	}
}

// TestSeveralEdges: the traffic of a load balancer is that of all edges, and an edge that goes takes nothing away.
func TestSeveralEdges(t *testing.T) {
	w := newWorld()
	for _, e := range []string{"edge-1", "edge-2"} {
		w.register(e)
		w.beat(e, counter("lb-1", 100, 0))
	}
	w.beat("edge-1", counter("lb-1", 110, 0))
	w.beat("edge-2", counter("lb-1", 105, 0))
	w.known.Drop("edge-2")
	w.beat("edge-1", counter("lb-1", 111, 0))
	w.wants(t, "two edges", "lb-1", 16, 0)
}

// TestEven: steady traffic is a straight line, whether two or three heartbeats are in a step.
func TestEven(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	for n := range uint64(60) {
		w.beat("edge-1", counter("lb-1", 20*n, 0))
	}
	s, _ := w.Of("lb-1", Ranges[0])
	if len(s.Points) < 20 {
		t.Fatalf("%d steps", len(s.Points))
	}
	for i, p := range s.Points[1:] {
		if math.Abs(float64(p.Accepted)-10) > .01 || math.Abs(float64(p.BytesOut)-1000) > 1 {
			t.Errorf("step %d: %+v, want 10 requests and 1000 bytes per second", i+1, p)
		}
	}
	if got := s.Last(6); math.Abs(float64(got.Accepted)-10) > .01 {
		t.Errorf("last steps: %+v", got)
	}
}

// TestSeldom: edges report counters with every sixth heartbeat only.
func TestSeldom(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	for n := range uint64(20) {
		w.beat("edge-1", counter("lb-1", 120*n, 0))
		for range 5 {
			w.beat("edge-1")
		}
	}
	s, _ := w.Of("lb-1", Ranges[0])
	if len(s.Points) < 40 {
		t.Fatalf("%d steps", len(s.Points))
	}
	for i, p := range s.Points[1:] {
		if math.Abs(float64(p.Accepted)-10) > .01 {
			t.Errorf("step %d: %+v, want 10 requests per second", i+1, p)
		}
	}
}

// TestForgets: a range holds no more than its steps, and steps without traffic are zero.
func TestForgets(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	w.beat("edge-1", counter("lb-1", 0, 0))
	w.beat("edge-1", counter("lb-1", 100, 0))
	w.clock.Step(16 * time.Minute)
	w.beat("edge-1")
	w.beat("edge-1", counter("lb-1", 101, 0))
	w.clock.Step(2*time.Minute + settle)
	short, _ := w.Of("lb-1", Ranges[0])
	if a, _ := sum(short); len(short.Points) != Ranges[0].Steps || a != 1 {
		t.Errorf("15 minutes: %d steps, %v requests, want %d steps and 1 request", len(short.Points), a, Ranges[0].Steps)
	}
	long, _ := w.Of("lb-1", Ranges[1])
	if a, _ := sum(long); a != 101 {
		t.Errorf("24 hours: %v requests", a)
	}
	// What was counted over two days is spread over them.
	w.clock.Step(48 * time.Hour)
	w.beat("edge-1", counter("lb-1", 301, 0))
	w.clock.Step(2*time.Minute + settle)
	if long, _ = w.Of("lb-1", Ranges[1]); len(long.Points) != Ranges[1].Steps {
		t.Errorf("24 hours: %d steps", len(long.Points))
	}
	if a, _ := sum(long); a < 95 || a > 105 {
		t.Errorf("two days later: %v requests, want about 100", a)
	}
}

// TestBounded: there is a limit on the load balancers whose traffic is kept, and those with traffic are kept.
func TestBounded(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	w.beat("edge-1", counter("lb-busy", 0, 0))
	for n := range uint64(mostSeries + 10) {
		w.beat("edge-1", counter("lb-busy", n+1, 0), counter(fmt.Sprintf("lb-%d", n), 1, 0))
	}
	if len(w.balancers) != mostSeries {
		t.Errorf("%d series", len(w.balancers))
	}
	if _, kept := w.Of("lb-busy", Ranges[0]); !kept {
		t.Error("the load balancer with traffic is not kept")
	}
	if _, kept := w.Of("lb-0", Ranges[0]); kept {
		t.Error("the load balancer without traffic is kept")
	}
	if got := w.Busiest(1); len(got) != 1 || got[0] != "lb-busy" {
		t.Errorf("busiest: %v", got)
	}
}

// TestTooMany: if too many load balancers have traffic, the same ones are kept as long as they have it, and the total
// is that of all. Those that do not exist do not count.
func TestTooMany(t *testing.T) {
	w := newWorld()
	w.register("edge-1")
	report := func(n uint64) {
		counters := []cloudv1.ListenerCounter{counter("none", n, 0)}
		for i := range 2 * mostSeries {
			counters = append(counters, counter(fmt.Sprintf("lb-%d", i), n, 0))
		}
		w.beat("edge-1", counters...)
	}
	report(0)
	report(1)
	kept := slices.Sorted(maps.Keys(w.balancers))
	if len(kept) != mostSeries || kept[len(kept)-1] == "none" {
		t.Fatalf("%d series, the last of %s", len(kept), kept[len(kept)-1])
	}
	for n := range uint64(3) {
		report(n + 2)
		if !slices.Equal(kept, slices.Sorted(maps.Keys(w.balancers))) {
			t.Fatal("other load balancers are kept although all are busy")
		}
	}
	w.clock.Step(2*time.Minute + settle)
	if a, _ := sum(w.Total(Ranges[0])); a != 4*2*mostSeries {
		t.Errorf("%v requests in all", a)
	}
	w.beat("edge-1", counter("lb-new", 1, 0))
	if _, kept := w.Of("lb-new", Ranges[0]); !kept {
		t.Error("a load balancer is not kept although all others are idle")
	}
}
