package safety

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
)

// TestCrashes kills the controllers before and after every call to the cloud and to the API server that follows a
// change, starts them again, and checks that no promise is broken and that the work gets done. How many calls follow
// differs a little from run to run, so it goes on until a call is not reached.
func TestCrashes(t *testing.T) {
	all := scenarios()
	total := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			for n, reached := 1, true; reached; n++ {
				reached = false
				for at, after := range map[string]bool{"before": false, "after": true} {
					t.Run(fmt.Sprintf("%s call %d", at, n), func(t *testing.T) {
						if crash(t, all[name], n, after) {
							reached = true
							total++
						}
					})
				}
			}
		})
	}
	figure(t, "crash points: killed at %d points of %d changes", total, len(all))
}

// crash plays a scenario and kills the controllers at a call. It reports whether they got that far.
func crash(t *testing.T, s scenario, n int, after bool) (killed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := play(t, s, func(w *world) { w.process.arm(n, after) })
		if killed = w.process.died(); killed {
			t.Logf("killed at %s", w.process.made()[n-1])
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
