package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Each client sends one request at a time, and a failed one is reported with the answer.
func TestLoad(t *testing.T) {
	const clients = 3
	var running, most, sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			// Another request was counted in between.
		}
		if sent.Add(1) == 2 {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("no"))
		}
	}))
	defer server.Close()
	b := &bench{client: server.Client()}
	metrics, failure := b.load(t.Context(), vegeta.Target{Method: http.MethodGet, URL: server.URL}, clients, 50*time.Millisecond)
	if int64(metrics.Requests) != sent.Load() || most.Load() > clients || metrics.Latencies.P50 <= 0 {
		t.Errorf("%d requests counted, %d sent, up to %d at a time, p50 %s", metrics.Requests, sent.Load(), most.Load(), metrics.Latencies.P50)
	}
	if failure == nil || !strings.Contains(failure.Error(), "429 Too Many Requests: no") {
		t.Errorf("failure = %v", failure)
	}
}
