package handler

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/store"
)

func TestPanicIsAProblem(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	logger := slog.New(slog.DiscardHandler)
	h := New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }), Options{
		Store: s, Clock: clock.RealClock{}, Tokens: &access.Tokens{Client: "t", Store: s, Logger: logger}, Logger: logger,
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/panic", http.NoBody)
	r.Header.Set("Authorization", "Bearer t")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"code":"internal"`) ||
		strings.Contains(w.Body.String(), "boom") {
		t.Errorf("panic: %d %s", w.Code, w.Body)
	}
}
