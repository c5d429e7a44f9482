package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

func TestDocumentIsUpToDate(t *testing.T) {
	want, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "reference", "mycloud-openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf(
			"the document is out of step with the handlers; run: go run ./cmd/mycloud openapi > docs/reference/mycloud-openapi.yaml\n%s",
			d,
		)
	}
}

// newTestAPI returns an API with the token "t" of clients and "e" of edges that register, and its state.
func newTestAPI(t *testing.T) (*API, store.Store) {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Options{
		Store: s, Clock: clock.RealClock{}, Token: "t", EdgeToken: "e", Logger: slog.New(slog.DiscardHandler),
	}), s
}

func send(t *testing.T, h http.Handler, method, path, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTroubleIsAProblem(t *testing.T) {
	a, state := newTestAPI(t)
	if err := state.Close(); err != nil {
		t.Fatal(err)
	}
	w := send(t, a.Handler(), http.MethodGet, "/v1/instances", "t")
	if w.Code != http.StatusInternalServerError || w.Header().Get("Content-Type") != cloudv1.MediaTypeProblem {
		t.Errorf("the state is closed: %d %s", w.Code, w.Body)
	}
	w = send(t, a.Handler(), http.MethodGet, "/v1/meta", "t")
	if !strings.Contains(w.Body.String(), `"status":"degraded"`) {
		t.Errorf("the state is closed: %s", w.Body)
	}
}
