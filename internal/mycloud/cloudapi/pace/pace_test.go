package pace_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// begin is the time at which tests begin.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a Gate with a clock.
type world struct {
	*testing.T
	*pace.Gate
	now time.Time
}

func newWorld(t *testing.T, jitter float64) *world {
	t.Helper()
	return &world{t, pace.New(pace.Options{Jitter: func() float64 { return jitter }}), begin}
}

var (
	read  = pace.Request{Operation: "GET instances", Class: pace.Poll}
	other = pace.Request{Operation: "GET zones", Class: pace.Poll}
	write = pace.Request{Operation: "PUT load-balancers/{id}", Write: true, Class: pace.Write}

	errFailed = errors.New("failed")
	failed    = pace.Outcome{Failed: true, Err: errFailed}
)

// send sends a request that ends with the outcome.
func (w *world) send(r pace.Request, o pace.Outcome) {
	w.Helper()
	pass, refusal := w.Enter(r, w.now)
	if refusal != nil {
		w.Fatalf("after %s: %s is refused: %+v", w.now.Sub(begin), r.Operation, refusal)
	}
	pass.Done(o, w.now)
}

// refused expects that a request is refused, and returns for how long.
func (w *world) refused(r pace.Request, reason pace.Reason) time.Duration {
	w.Helper()
	_, refusal := w.Enter(r, w.now)
	if refusal == nil || refusal.Reason != reason {
		w.Fatalf("after %s: %s: %+v, want a refusal because of %s", w.now.Sub(begin), r.Operation, refusal, reason)
	}
	return refusal.After
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// After a 429, no request of the quota is sent until the time that the cloud asked for.
func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		asked  time.Duration
		jitter float64
		want   time.Duration
	}{
		"as asked":    {7 * time.Second, 0, 7 * time.Second},
		"with jitter": {10 * time.Second, 1, 11 * time.Second},
		"a year":      {365 * 24 * time.Hour, 0, 5 * time.Minute},
		"not said":    {0, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.jitter)
			w.send(read, pace.Outcome{Throttled: true, RetryAfter: test.asked, Err: errFailed})
			w.send(write, pace.Outcome{})
			for _, r := range []pace.Request{read, other, {Operation: "GET x", Class: pace.Safety}} {
				if after := w.refused(r, pace.ReasonSilence); after != test.want {
					t.Errorf("%s must wait %s, want %s", r.Operation, after, test.want)
				}
			}
			w.pass(test.want - 1)
			w.refused(read, pace.ReasonSilence)
			w.pass(1)
			w.send(read, pace.Outcome{})
			w.send(other, pace.Outcome{})
		})
	}
}

func TestCircuit(t *testing.T) {
	fail := func(w *world, n int) {
		for range n {
			w.send(read, failed)
		}
	}
	t.Run("a success in between", func(t *testing.T) {
		w := newWorld(t, 0)
		fail(w, 4)
		w.send(read, pace.Outcome{})
		fail(w, 4)
		w.send(read, pace.Outcome{})
	})
	t.Run("only the endpoint", func(t *testing.T) {
		w := newWorld(t, 0)
		fail(w, 5)
		w.refused(read, pace.ReasonCircuit)
		w.send(other, pace.Outcome{})
		w.send(write, pace.Outcome{})
	})
	t.Run("only the flow", func(t *testing.T) {
		w := newWorld(t, 0)
		poisoned, fine := read, read
		poisoned.Flow, fine.Flow = "poisoned", "fine"
		for range 5 {
			w.send(poisoned, failed)
		}
		w.refused(poisoned, pace.ReasonCircuit)
		w.send(fine, pace.Outcome{})
		w.send(read, pace.Outcome{})
		w.refused(poisoned, pace.ReasonCircuit)
		if !w.State(w.now).Open[read.Operation] {
			t.Error("the circuit of the flow is not reported")
		}
	})
	t.Run("rests grow to 15 seconds, and a probe that succeeds ends them", func(t *testing.T) {
		w := newWorld(t, 0)
		fail(w, 5)
		for _, want := range []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second,
		} {
			if after := w.refused(read, pace.ReasonCircuit); after != want {
				t.Fatalf("rest %s, want %s", after, want)
			}
			w.pass(want)
			w.send(read, failed)
		}
		w.pass(time.Minute)
		w.send(read, pace.Outcome{})
		fail(w, 4)
		w.send(read, pace.Outcome{})
	})
	t.Run("jitter shortens rests", func(t *testing.T) {
		w := newWorld(t, 1)
		fail(w, 5)
		if after := w.refused(read, pace.ReasonCircuit); after != time.Second/2 {
			t.Errorf("rest %s", after)
		}
	})
	t.Run("one probe at a time", func(t *testing.T) {
		w := newWorld(t, 0)
		fail(w, 5)
		w.pass(time.Second)
		probe, _ := w.Enter(read, w.now)
		w.refused(read, pace.ReasonCircuit)
		probe.Done(pace.Outcome{Canceled: true}, w.now)
		w.send(read, pace.Outcome{})
	})
	t.Run("a late failure is no news, a late success is", func(t *testing.T) {
		w := newWorld(t, 0)
		slow, _ := w.Enter(read, w.now)
		slower, _ := w.Enter(read, w.now)
		fail(w, 5)
		slow.Done(failed, w.now)
		if after := w.refused(read, pace.ReasonCircuit); after != time.Second {
			t.Errorf("rest %s", after)
		}
		slower.Done(pace.Outcome{}, w.now)
		w.send(read, pace.Outcome{})
	})
	t.Run("503 with Retry-After opens it at once", func(t *testing.T) {
		w := newWorld(t, 0)
		w.send(read, pace.Outcome{Failed: true, Unavailable: true, RetryAfter: 365 * 24 * time.Hour, Err: errFailed})
		if after := w.refused(read, pace.ReasonCircuit); after != 5*time.Minute {
			t.Errorf("rest %s", after)
		}
		w.send(other, pace.Outcome{})
		w.pass(5 * time.Minute)
		w.send(read, failed)
		w.refused(read, pace.ReasonCircuit)
	})
}

func advertise(name string, quota int64, window time.Duration) pace.Outcome {
	return pace.Outcome{Limits: []pace.Limit{
		{Name: name, Policy: &pace.Policy{Name: name, Quota: quota, Window: window}},
	}}
}

// However the window is placed, at most half of the quota is used in it, and nearly half if there is enough to do.
func TestHalfOfTheQuotaInAnyWindow(t *testing.T) {
	const quota, window, step = 600, time.Minute, 50 * time.Millisecond
	w := newWorld(t, 0)
	w.send(write, advertise("read", quota, window))
	var sent []time.Time
	for w.now.Sub(begin) < 4*window {
		if pass, _ := w.Enter(pace.Request{Operation: "GET x", Class: pace.Safety}, w.now); pass != nil {
			// An advertisement that is repeated, or that changes, adds nothing.
			pass.Done(advertise("read", quota+int64(len(sent)%2), window), w.now)
			sent = append(sent, w.now)
		}
		w.pass(step)
	}
	most := 0
	for i, from := range sent {
		n := 0
		for _, at := range sent[i:] {
			if at.Sub(from) < window {
				n++
			}
		}
		most = max(most, n)
	}
	if most > quota/2 || most < quota/2-10 {
		t.Errorf("%d requests in a window, want almost %d", most, quota/2)
	}
	if rate := len(sent) / 4; rate < quota*2/5 {
		t.Errorf("%d requests per window, want more", rate)
	}
}

func TestReserves(t *testing.T) {
	w := newWorld(t, 0)
	// Without a name that says otherwise, a policy concerns reads and writes: a budget of 100 requests at once.
	w.send(write, advertise("default", 1000, time.Minute))
	if got := w.State(w.now).Budget; got[pace.Safety] != 100 || got[pace.Drift] != 50 {
		t.Fatalf("budget %v", got)
	}
	for _, step := range []struct {
		class pace.Class
		want  int
	}{{pace.Drift, 50}, {pace.Poll, 25}, {pace.Write, 10}, {pace.Nodes, 10}, {pace.Safety, 5}} {
		n := 0
		for {
			r := pace.Request{Operation: "x", Write: step.class == pace.Write || step.class == pace.Nodes, Class: step.class}
			pass, refusal := w.Enter(r, w.now)
			if refusal != nil {
				if refusal.Reason != pace.ReasonBudget || refusal.After <= 0 || refusal.After > time.Second {
					t.Errorf("%s: %+v", step.class, refusal)
				}
				break
			}
			pass.Done(pace.Outcome{}, w.now)
			n++
		}
		if n != step.want {
			t.Errorf("%d requests of class %s, want %d", n, step.class, step.want)
		}
	}
	state := w.State(w.now)
	if state.Budget[pace.Safety] != 0 || state.Refused[pace.Refused{Class: pace.Drift, Reason: pace.ReasonBudget}] != 1 {
		t.Errorf("%+v", state)
	}
}

func TestQuotasAreSeparate(t *testing.T) {
	w := newWorld(t, 0)
	w.send(read, advertise("read", 10, time.Minute)) // one request at once
	w.send(read, pace.Outcome{})
	w.refused(read, pace.ReasonBudget)
	w.send(write, pace.Outcome{})
	if left := w.State(w.now).Budget[pace.Write]; !math.IsInf(left, 1) {
		t.Errorf("budget of writes %v", left)
	}
	// The smallest quota starves no class.
	w.pass(time.Minute)
	w.send(pace.Request{Operation: "GET x", Class: pace.Drift}, pace.Outcome{})
}

// Other clients use the same quota, so what the cloud says is left counts, too.
func TestRemaining(t *testing.T) {
	w := newWorld(t, 0)
	w.send(read, advertise("read", 1000, time.Minute))
	w.send(read, pace.Outcome{Limits: []pace.Limit{{Name: "read", Remaining: new(int64(20)), Reset: time.Minute}}})
	if left := w.State(w.now).Budget[pace.Safety]; left != 10 {
		t.Errorf("%v left, want half of 20", left)
	}
	w.send(pace.Request{Operation: "GET x", Class: pace.Safety}, pace.Outcome{Limits: []pace.Limit{{Name: "read", Remaining: new(int64(0)), Reset: 30 * time.Second}}})
	if after := w.refused(read, pace.ReasonSilence); after != 30*time.Second {
		t.Errorf("silence %s", after)
	}
	if state := w.State(w.now); state.Silence[false] != 30*time.Second || state.Silence[true] != 0 {
		t.Errorf("%+v", state.Silence)
	}
	w.send(write, pace.Outcome{})
}

// A quota that is advertised by mistake, such as one request per day on the page of a proxy, stops requests for no longer
// than the longest silence, and is forgotten when useful responses do not mention it.
func TestMistakenQuota(t *testing.T) {
	w := newWorld(t, 0)
	w.send(read, advertise("default", 1, 24*time.Hour))
	w.send(read, pace.Outcome{})
	if after := w.refused(read, pace.ReasonBudget); after > pace.MaxSilence {
		t.Errorf("requests must wait for %s", after)
	}
	w.pass(pace.MaxSilence)
	w.send(read, failed)
	w.refused(write, pace.ReasonBudget) // a failure does not show that the quota is gone
	w.pass(pace.MaxSilence)
	for range 10 {
		w.send(read, pace.Outcome{})
	}
	if left := w.State(w.now).Budget[pace.Write]; !math.IsInf(left, 1) {
		t.Errorf("budget of writes %v", left)
	}
}

// A quota that is advertised from time to time stays, and one of writes is not forgotten because of reads.
func TestQuotaIsRemembered(t *testing.T) {
	w := newWorld(t, 0)
	w.send(write, advertise("write", 10, time.Hour)) // one request at once
	w.send(write, pace.Outcome{})
	w.pass(pace.MaxSilence - time.Second)
	w.send(read, advertise("read", 1000, time.Minute))
	w.pass(2 * time.Second)
	w.send(read, pace.Outcome{})
	if left := w.State(w.now).Budget; math.IsInf(left[pace.Write], 1) || math.IsInf(left[pace.Drift], 1) {
		t.Errorf("budgets %v", left)
	}
}

// A flow that needs more than there is leaves so much of the budget that others do not notice it, and uses the rest.
func TestFlows(t *testing.T) {
	for _, quota := range []int64{60, 240, 6000} {
		w := newWorld(t, 0)
		w.send(read, advertise("write", quota, time.Minute))
		greedy, modest := write, write
		greedy.Flow, modest.Flow = "greedy", "modest"
		nodes := pace.Request{Operation: "PATCH node-groups/{id}/members", Write: true, Class: pace.Nodes}
		sent, left := 0, 0
		for second := range 600 {
			for {
				pass, refusal := w.Enter(greedy, w.now)
				if refusal != nil {
					break
				}
				pass.Done(advertise("write", quota, time.Minute), w.now)
				sent++
			}
			if second%20 == 0 { // less than its share
				w.send(modest, pace.Outcome{})
				w.send(nodes, pace.Outcome{})
				left += 2
			}
			w.pass(time.Second)
		}
		// A fifth of half of the quota may be used at once, so that four fifths of it accrue.
		if want := int(quota)*10*2/5 - left; sent < want*9/10 {
			t.Errorf("quota %d: %d requests of the greedy flow, want about %d", quota, sent, want)
		}
	}
}

// Refused requests of a flow get appointments one after the other, so that they do not come back at the same time.
func TestAppointments(t *testing.T) {
	w := newWorld(t, 0)
	w.send(read, advertise("write", 150, time.Minute)) // 15 at once, then one a second
	r := write
	r.Flow = "many"
	for range 15 {
		_, _ = w.Enter(r, w.now)
	}
	first := w.refused(r, pace.ReasonBudget)
	for n := range 400 {
		want := min(time.Duration(n+1)*time.Second, pace.MaxSilence)
		if after := w.refused(r, pace.ReasonBudget); after < want-time.Millisecond || after > want+first {
			t.Fatalf("appointment %d is after %s, want %s", n, after, want)
		}
	}
	other := write
	other.Flow = "other"
	w.send(other, pace.Outcome{})
	// What was begun is finished.
	r.Continues = true
	w.send(r, pace.Outcome{})
}
