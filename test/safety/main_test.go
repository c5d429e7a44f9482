package safety

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain keeps the handler that logs the errors of informers. The other one sleeps for as long as the clock is behind
// the error before: each world has a clock of its own, so that could be for years. All tests run in one thread: that is
// faster than several threads that wait for each other, and leaves other processors to other tests.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // it exists to be changed
	os.Exit(m.Run())
}

func TestErrorsOfInformersTakeNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		utilruntime.HandleErrorWithContext(t.Context(), errors.New("watch failed"), "An error of an informer")
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited for %s", waited)
		}
	})
}
