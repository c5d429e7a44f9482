package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// After the termination signal the replica is unready immediately but continues to serve: each response closes its
// connection.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, end := context.WithCancel(t.Context())
		d := &drain{delay: 10 * time.Second}
		serving, cancel := d.serving(ending)
		defer cancel()
		handler := d.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		call := func() (connection string) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(serving, http.MethodPost, "/", nil))
			return w.Header().Get("Connection")
		}
		if err, connection := d.check(nil), call(); err != nil || connection != "" {
			t.Errorf("before the signal: not ready: %v; Connection: %q", err, connection)
		}
		end()
		time.Sleep(d.delay - time.Nanosecond)
		synctest.Wait()
		if err, connection := d.check(nil), call(); err == nil || connection != "close" || serving.Err() != nil {
			t.Errorf("after the signal: not ready: %v; Connection: %q; serving ended: %v", err, connection,
				serving.Err())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if serving.Err() == nil {
			t.Error("after the delay: serving has not ended")
		}
	})
}

// A runnable whose watches sleep past the end of their context does not delay the end of the process; one that ends in
// order, or fails, is waited for.
func TestPrompt(t *testing.T) {
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		run  func(context.Context) error
		took time.Duration
		err  error
	}{
		"sleeps": {func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			return failed
		}, time.Minute + lingering, nil},
		"ends in order": {func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(lingering / 2)
			return nil
		}, time.Minute + lingering/2, nil},
		"fails": {func(context.Context) error { return failed }, 0, failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				err := prompt{manager.RunnableFunc(tc.run)}.Start(ctx)
				if took := time.Since(start); !errors.Is(err, tc.err) || took != tc.took {
					t.Errorf("ended with %v after %s, want %v after %s", err, took, tc.err, tc.took)
				}
				time.Sleep(time.Minute) // until what sleeps has ended, too
			})
		})
	}
}
