package agent_test

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// state sets what the proxy reports about a member.
func (w *world) state(lb *cloudv1.LoadBalancer, member, state string) {
	w.machine.set(func() {
		w.machine.health = slices.DeleteFunc(w.machine.health, func(h cloudv1.MemberHealth) bool { return h.MemberKey == member })
		w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", MemberKey: member, State: state,
		})
	})
}

// healthy returns the members that the kernel uses.
func (w *world) healthy() []string {
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return slices.Clone(w.machine.healthy)
}

// What the kernel got last is what it gets again with other health, whatever else of it failed.
func TestHealthTakesNothingBack(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*machine, error){
		"announcement": func(m *machine, err error) { m.announceErr = err },
		"proxy":        func(m *machine, err error) { m.err = err },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			lb := w.create("web")
			w.until("announce 1")
			w.machine.set(func() { fail(w.machine, errors.New("broken")) })
			w.begin("second")
			w.until("kernel 2")
			w.machine.taken()
			w.state(lb, "b", cloudv1.OperatingOffline)
			w.eventually("b is out", func() bool { return !slices.Contains(w.healthy(), "b") || len(w.healthy()) == 3 })
			if steps := w.machine.taken(); slices.Contains(steps, "kernel 1") {
				t.Errorf("the kernel went back: %q", steps)
			}
		})
	}
}

// An edge whose cloud does not answer at all says so within seconds, however long requests may take, and once.
func TestCloudIsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	following := func() bool {
		var value float64
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "mycloud_edge_following" {
				value = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return value == 1
	}
	logged := func(message string) int {
		w.machine.mu.Lock()
		defer w.machine.mu.Unlock()
		return w.machine.logged[message]
	}
	const silent, again = "Could not follow the cloud; the last state stays in force", "The cloud answers again"
	w.eventually("the edge follows", following)
	release := make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	t.Cleanup(answer)
	w.cloud.Intercept(func(http.ResponseWriter, *http.Request) bool {
		<-release
		return true
	})
	w.eventually("the edge notices", func() bool { return !following() && logged(silent) == 1 })
	w.cloud.Intercept(nil)
	answer()
	w.eventually("the edge follows again", func() bool { return following() && logged(again) == 1 })
	if n := logged(silent); n != 1 {
		t.Errorf("the silence is logged %d times", n)
	}
}

// A daemon that cannot withdraw an address holds up nothing else.
func TestWithdrawalFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.create("second")
	w.until("announce 2")
	w.machine.set(func() { w.machine.announceErr = errors.New("no bird") })
	w.delete(lb.ID)
	w.until("kernel 1")
	w.machine.set(func() { w.machine.announceErr = nil })
	w.eventually("the withdrawal is tried again", func() bool { return len(w.edge().Faults) == 0 })
}

// An address that cannot be added is not announced, and is the fault of its load balancer alone.
func TestMissingAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	w.machine.set(func() {
		w.machine.missing = map[netip.Addr]error{netip.MustParseAddr(lb.VIPs[0].Address): errors.New("no IPv6")}
	})
	w.create("second")
	steps := w.until("addresses 2")
	steps = append(steps, w.until("announce 1")...)
	if slices.Contains(steps, "announce 2") {
		t.Errorf("the address is announced: %q", steps)
	}
	w.eventually("the fault is reported", func() bool {
		faults := w.edge().Faults
		return len(faults) == 1 && faults[0].LoadBalancerID == lb.ID && strings.Contains(faults[0].Detail, "no IPv6")
	})
}

// A change of health that the kernel refuses is tried again at once, and said once.
func TestKernelRefusesHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	w.machine.set(func() { w.machine.kernelErr = errors.New("no memory") })
	w.state(lb, "b", cloudv1.OperatingOffline)
	w.machine.taken()
	for range 3 {
		w.until("kernel 1")
	}
	w.machine.set(func() {
		w.machine.kernelErr = nil
		if n := w.machine.logged["Could not apply the health of members"]; n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
	w.eventually("it is over", func() bool {
		w.machine.mu.Lock()
		defer w.machine.mu.Unlock()
		return w.machine.logged["The health of members is applied again"] == 1
	})
	if got := w.healthy(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the kernel uses %v, want a", got)
	}
}

// A proxy that has started again has not probed a dead member yet.
func TestHealthOutlivesTheProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	w.state(lb, "b", cloudv1.OperatingOffline)
	w.eventually("b is out", func() bool { return slices.Equal(w.healthy(), []string{"a"}) })
	w.state(lb, "b", cloudv1.OperatingUnknown)
	w.state(lb, "a", cloudv1.OperatingOffline)
	w.eventually("a is out, too", func() bool { return len(w.healthy()) == 0 })
	w.state(lb, "b", cloudv1.OperatingOnline)
	w.eventually("b is back", func() bool { return slices.Equal(w.healthy(), []string{"b"}) })
	// What it knows counts although there is an error, and what it does not know stays as it was.
	w.machine.set(func() { w.machine.health, w.machine.probeErr = nil, errors.New("a part is down") })
	w.state(lb, "b", cloudv1.OperatingOffline)
	w.eventually("b is out again", func() bool { return len(w.healthy()) == 0 })
}

// An edge that returns does not serve what the cloud has deleted since.
func TestReturn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	w.stop()
	w.delete(lb.ID)
	w.machine.taken()
	w.start()
	if steps := w.until("announce 0"); slices.Contains(steps, "proxy 1") {
		t.Errorf("the edge has served what is deleted: %q", steps)
	}
}

// What would be lost with a restart is not confirmed: the edge would serve the address again, that another load balancer has
// by then.
func TestUnsavedIsNotConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	// The file that replaces the state cannot be written.
	blocked := filepath.Join(w.dir, "state.json.new")
	w.eventually("writing fails", func() bool { return os.Mkdir(blocked, 0o700) == nil })
	w.delete(lb.ID)
	w.until("addresses 0")
	w.eventually("the fault is reported", func() bool {
		return slices.ContainsFunc(w.edge().Faults, func(f cloudv1.EdgeFault) bool {
			return f.LoadBalancerID == "" && strings.Contains(f.Detail, "state.json.new: is a directory")
		})
	})
	w.begin("second")
	w.until("addresses 1")
	held := func() bool {
		addresses, err := w.cloud.Client.ListAddresses(t.Context(), cloudapi.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(addresses.Items, func(x cloudv1.Address) bool { return x.ID == lb.VIPs[0].Address })
	}
	if !held() {
		t.Error("the address is free, but an agent that starts now serves it")
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	w.eventually("the address is free", func() bool { return !held() })
	w.eventually("the fault is gone", func() bool { return len(w.edge().Faults) == 0 })
}

// With the option, an edge withdraws its addresses when the cloud has not answered for that long, also over a restart, and
// goes on serving what still arrives.
func TestWithdrawsWhatIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	w.withdrawAfter = 5 * time.Second
	w.start()
	w.create("web")
	w.until("announce 1")
	// Answers that bring no news are answers.
	for end := time.Now().Add(w.withdrawAfter + time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if slices.Contains(w.machine.taken(), "announce 0") {
			t.Fatal("withdrawn, although the cloud answers")
		}
	}
	w.cloud.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	if steps := w.until("announce 0"); slices.Contains(steps, "kernel 0") || slices.Contains(steps, "addresses 0") {
		t.Errorf("the edge has stopped serving: %q", steps)
	}
	for range 2 {
		w.stop()
		w.machine.taken()
		w.start()
		if steps := w.until("announce 0"); slices.Contains(steps, "announce 1") {
			t.Errorf("a restart has made the state current: %q", steps)
		}
	}
	w.cloud.Intercept(nil)
	w.until("announce 1")
}

// A state that cannot be read is that of the cloud again.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	w.stop()
	if err := os.WriteFile(filepath.Join(w.dir, "state.json"), []byte(`{"revision":"7","load_bal`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.machine.taken()
	w.start()
	if steps := w.until("announce 1"); slices.Contains(steps, "proxy 0") {
		t.Errorf("the edge has stopped serving: %q", steps)
	}
}
