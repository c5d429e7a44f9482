package edges

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

func stored(revision, state string) *cloudv1.Edge {
	return &cloudv1.Edge{Object: cloudv1.Object{ID: "edge-1", Name: "one", Revision: revision}, State: state}
}

// TestPut: commits that arrive late do not undo later ones, and an edge that is back has time to catch up.
func TestPut(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	r := New(clock, 2*time.Second)
	r.Put(stored("9", cloudv1.EdgeActive), false)
	begin := clock.Now()
	clock.Step(5 * time.Second)
	r.Put(stored("10", cloudv1.EdgeOffline), false)
	r.Put(stored("9", cloudv1.EdgeActive), false)
	if e := r.Get("edge-1"); e.Online() || !e.Since.Equal(begin) {
		t.Errorf("after a late commit: %+v", e)
	}
	if ids, next := r.Silent(); len(ids) > 0 || next > 0 {
		t.Errorf("an edge that is offline: %v, next in %s", ids, next)
	}
	r.Put(stored("11", cloudv1.EdgeActive), true)
	if e := r.Get("edge-1"); !e.Live() || !e.Since.Equal(clock.Now()) {
		t.Errorf("an edge that is back: %+v", e)
	}
	ids, next := r.Silent()
	if d := cmp.Diff(6*time.Second, next); d != "" || len(ids) > 0 {
		t.Errorf("silent: %v, %s", ids, d)
	}
	clock.Step(next)
	if ids, _ = r.Silent(); len(ids) != 1 {
		t.Errorf("silent: %v", ids)
	}
}

// TestChanged: only news of what an edge has applied wake those who wait.
func TestChanged(t *testing.T) {
	r := New(clocktesting.NewFakeClock(time.Now()), 2*time.Second)
	r.Put(stored("9", cloudv1.EdgeActive), false)
	fault := []cloudv1.EdgeFault{{LoadBalancerID: "lb-1", Detail: "x"}}
	for name, test := range map[string]struct {
		applied uint64
		h       cloudv1.Heartbeat
		want    bool
	}{
		"applied": {7, cloudv1.Heartbeat{Faults: fault}, true},
		"fault":   {0, cloudv1.Heartbeat{}, true},
		"health":  {0, cloudv1.Heartbeat{Faults: fault, Health: &[]cloudv1.MemberHealth{}}, false},
		"nothing": {0, cloudv1.Heartbeat{Faults: fault}, false},
	} {
		r.Report("edge-1", 0, &cloudv1.Heartbeat{Faults: fault})
		changed := r.Changed()
		r.Report("edge-1", test.applied, &test.h)
		got := false
		select {
		case <-changed:
			got = true
		default:
		}
		if got != test.want {
			t.Errorf("%s: changed is %t", name, got)
		}
	}
	if complete, _ := r.Report("edge-2", 0, &cloudv1.Heartbeat{}); complete || r.Get("edge-2") != nil {
		t.Error("a report of an edge that is not registered was stored")
	}
}

// TestLearn: details of another server are a new report of counters only if the edge has reported counters.
func TestLearn(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	a, b := New(clock, 2*time.Second), New(clock, 2*time.Second)
	for _, r := range []*Registry{a, b} {
		r.Put(stored("9", cloudv1.EdgeActive), false)
	}
	health := []cloudv1.MemberHealth{{LoadBalancerID: "lb-1", PoolKey: "web", MemberKey: "node-1", State: cloudv1.OperatingOnline}}
	counters := func(n uint64) *[]cloudv1.ListenerCounter {
		return &[]cloudv1.ListenerCounter{{LoadBalancerID: "lb-1", ListenerKey: "tcp/80", Accepted: n}}
	}
	for _, step := range []struct {
		what     string
		h        cloudv1.Heartbeat
		from, to *Registry
		counted  int
		accepted uint64
	}{
		{"counters", cloudv1.Heartbeat{Counters: counters(5)}, a, b, 1, 5},
		{"health", cloudv1.Heartbeat{Health: &health}, a, b, 1, 5},
		{"the same counters", cloudv1.Heartbeat{Counters: counters(5)}, a, b, 2, 5},
		{"counters that the other server receives", cloudv1.Heartbeat{Counters: counters(7)}, b, a, 3, 7},
	} {
		step.from.Report("edge-1", 0, &step.h)
		step.to.Learn("edge-1", step.from.Get("edge-1").Details())
		e := step.to.Get("edge-1")
		if got := e.CountersOf("lb-1"); e.Counted() != step.counted || len(got) != 1 || got[0].Accepted != step.accepted {
			t.Errorf("%s: reported %d times, %+v", step.what, e.Counted(), got)
		}
		if _, ok := e.Health("lb-1", "web", "", "node-1"); ok != (step.what != "counters") {
			t.Errorf("%s: health is known: %t", step.what, ok)
		}
	}
}

// TestVersionsOfDetails: servers of different versions tell each other of edges. What one does not know, it ignores; what it does
// not say, it does not know, so that what others have said counts.
func TestVersionsOfDetails(t *testing.T) {
	r := New(clocktesting.NewFakeClock(time.Now()), 2*time.Second)
	r.Put(stored("9", cloudv1.EdgeActive), false)
	learn := func(message string) *Edge {
		t.Helper()
		var d Details
		if err := json.Unmarshal([]byte(message), &d); err != nil {
			t.Fatal(err)
		}
		r.Learn("edge-1", d)
		return r.Get("edge-1")
	}
	const health = `"health":[{"load_balancer_id":"lb-1","pool_key":"tcp/80","family":"ipv4","member_key":"a","state":"online"}]`
	const counters = `"counters":[{"load_balancer_id":"lb-1","listener_key":"tcp/80","family":"ipv4","accepted":7}]`
	// A version before announcements and counts of reports.
	if e := learn(`{` + health + `,` + counters + `}`); len(e.health) != 1 || e.announced != nil {
		t.Errorf("of a former version: %+v", e)
	}
	if e := learn(`{` + health + `,` + counters + `,"counted":3,"announced":["203.0.113.1"],"later":{"x":[1]}}`); !e.complete() || len(e.announced) != 1 || len(e.counters) != 1 {
		t.Errorf("of a later version: %+v", e)
	}
	if e := learn(`{"health":[],` + counters + `}`); len(e.health) != 0 || len(e.announced) != 1 {
		t.Errorf("of a former version, after a later one: %+v", e)
	}

	// A former version reads what this one tells.
	raw, err := json.Marshal(r.Get("edge-1").Details())
	if err != nil {
		t.Fatal(err)
	}
	var former struct {
		Health   []cloudv1.MemberHealth    `json:"health"`
		Counters []cloudv1.ListenerCounter `json:"counters"`
	}
	if err := json.Unmarshal(raw, &former); err != nil || former.Health == nil || len(former.Counters) != 1 {
		t.Errorf("%s is read as %+v, %v", raw, former, err)
	}
}
