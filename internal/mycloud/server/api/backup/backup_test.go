package backup

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"quaymaster.dev/internal/mycloud/server/store"
)

// bigStore is a store whose backup is larger than what the kernel takes of a connection that is not read.
type bigStore struct {
	store.Store

	// taken gets a value when a snapshot is not held any more.
	taken chan struct{}
}

const size = 64 << 20

func (s bigStore) Backup(w io.Writer) error {
	_, err := w.Write(make([]byte, size))
	s.taken <- struct{}{}
	return err
}

// A client that reads nothing holds no snapshot, and does not keep others from backups.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	s := bigStore{taken: make(chan struct{}, 10)}
	dir := t.TempDir()
	h := New(s, dir, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(h)
	defer server.Close()
	get := func() *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	slow := get()
	select {
	case <-s.taken:
	case <-time.After(10 * time.Second):
		t.Fatal("a client that does not read holds a snapshot")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files that a crash would leave: %v, %v", files, err)
	}
	if n, err := io.Copy(io.Discard, get().Body); n != size || err != nil {
		t.Errorf("another client gets %d bytes, %v", n, err)
	}
	second := get()
	if third := get(); third.StatusCode != http.StatusServiceUnavailable || third.Header.Get("Retry-After") == "" {
		t.Errorf("too many: %d, %v", third.StatusCode, third.Header)
	}
	_ = slow.Body.Close()
	if n, err := io.Copy(io.Discard, second.Body); n != size || err != nil {
		t.Errorf("the second client gets %d bytes, %v", n, err)
	}
	for result, want := range map[string]float64{complete: 2, refused: 1, cut: 1, failed: 0} {
		deadline := time.Now().Add(10 * time.Second)
		for testutil.ToFloat64(h.count.WithLabelValues(result)) != want && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if got := testutil.ToFloat64(h.count.WithLabelValues(result)); got != want {
			t.Errorf("%s: %v, want %v", result, got, want)
		}
	}
}

// A backup that cannot be written is an error from the beginning.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	h := New(bigStore{}, "/nonexistent", slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d", w.Code)
	}
}
