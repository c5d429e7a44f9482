package safety

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
)

// TestCrashes kills the controllers before and after every call to the cloud and to the API server that follows a
// change, starts them again, and checks that no promise is broken and that the work gets done.
func TestCrashes(t *testing.T) {
	all := scenarios()
	total := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			calls := rehearse(t, all[name])
			for n := 1; n <= len(calls); n++ {
				for _, after := range []bool{false, true} {
					at := "before"
					if after {
						at = "after"
					}
					t.Run(fmt.Sprintf("%s call %d %s", at, n, calls[n-1]), func(t *testing.T) {
						if crash(t, all[name], n, after) {
							total++
						}
					})
				}
			}
		})
	}
	figure(t, "crash points: killed at %d points of %d changes", total, len(all))
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

// crash plays a scenario and kills the controllers at a call. It reports whether they got that far.
func crash(t *testing.T, s scenario, n int, after bool) (killed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := play(t, s, func(w *world) { w.process.arm(n, after) })
		if killed = w.process.died(); killed {
			w.start()
			w.settle(s.wait)
		}
		w.finish()
	})
	return killed
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
