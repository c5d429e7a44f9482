package safety

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestCrashes kills the controllers before and after every write to the cloud and to the API server that a change
// causes, and the calls next to it, starts them again, and checks that no promise is broken and that the work gets done.
func TestCrashes(t *testing.T) {
	all := scenarios()
	total := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			calls := rehearse(t, all[name])
			for _, n := range points(calls) {
				for _, after := range []bool{false, true} {
					at := "before"
					if after {
						at = "after"
					}
					total++
					t.Run(fmt.Sprintf("%s call %d %s", at, n, calls[n-1]), func(t *testing.T) { crash(t, all[name], n, after) })
				}
			}
		})
	}
	figure(t, "crash points: killed at %d points of %d changes", total, len(all))
}

// around is how many calls before and after a write are also points to be killed at.
const around = 2

// points returns the numbers of the calls at which the controllers are killed: writes and the calls next to them. All
// other calls are periodic reads.
func points(calls []string) []int {
	var list []int
	for n := 1; n <= len(calls); n++ {
		if slices.ContainsFunc(calls[max(0, n-1-around):min(len(calls), n+around)], func(call string) bool {
			return !strings.HasPrefix(call, http.MethodGet)
		}) {
			list = append(list, n)
		}
	}
	return list
}

// rehearse plays a scenario without a crash and returns the calls that it causes.
func rehearse(t *testing.T, s scenario) (calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := play(t, s, func(*world) {})
		calls = w.process.made()
		w.finish()
	})
	return calls
}

// crash plays a scenario and kills the controllers at a call.
func crash(t *testing.T, s scenario, n int, after bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := play(t, s, func(w *world) { w.process.arm(n, after) })
		if w.process.died() {
			w.start()
			w.settle(s.wait)
		}
		w.finish()
	})
}

// play prepares a world, lets the controllers finish, and makes the change.
func play(t *testing.T, s scenario, arm func(*world)) *world {
	t.Helper()
	w := newWorld(t, size{nodes: 3})
	if s.before != nil {
		s.before(w)
	}
	w.start()
	w.settle(0)
	w.process.arm(0, false)
	arm(w)
	s.act(w)
	w.settle(s.wait)
	return w
}
