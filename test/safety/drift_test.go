package safety

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDrift: what others change of a load balancer is repaired within ten minutes.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3})
		web(w)
		w.start()
		w.settle(0)
		w.meddle()
		time.Sleep(10 * time.Minute)
		if qps := w.balancer().Listeners[0].MaxQPS; qps == 1 {
			t.Error("the load balancer is as another client left it")
		}
		w.finish()
	})
}
