package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
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
