package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProfiles(t *testing.T) {
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		for profiling, want := range map[bool]int{true: http.StatusOK, false: http.StatusNotFound} {
			o := &webhookOptions{profiling: profiling}
			response := httptest.NewRecorder()
			o.metricsHandler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if response.Code != want {
				t.Errorf("%s with profiling %t: status %d, want %d", path, profiling, response.Code, want)
			}
		}
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.2:8080": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:8080": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "localhost:8080": false,
		off: false,
	} {
		if got := isLoopback(address); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
}
