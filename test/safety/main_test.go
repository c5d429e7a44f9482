package safety

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain keeps the handler that logs the errors of informers. The other one sleeps for as long as the clock is behind
// the error before: each world has a clock of its own, so that could be for years.
func TestMain(m *testing.M) {
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
