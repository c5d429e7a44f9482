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
	"quaymaster.dev/internal/mycloud/store"
)

func TestDocumentIsUpToDate(t *testing.T) {
	want, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "mycloud-openapi.yaml"))
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

func newTestAPI(t *testing.T) *API {
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
	return New(Options{Store: s, Clock: clock.RealClock{}, Token: "t", Logger: slog.New(slog.DiscardHandler)})
}

func send(t *testing.T, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestIdempotencyKeyInFlight(t *testing.T) {
	a := newTestAPI(t)
	h := a.Handler()
	if !a.inFlight.enter("k") {
		t.Fatal("the key is in use")
	}
	w := send(t, h, http.MethodPost, "/v1/node-groups", `{"name":"a"}`, "Idempotency-Key", "k")
	if w.Code != http.StatusConflict || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), `"code":"conflict"`) {
		t.Errorf("in flight: %d %v %s", w.Code, w.Header(), w.Body)
	}
	a.inFlight.leave("k")
	if w := send(t, h, http.MethodPost, "/v1/node-groups", `{"name":"a"}`, "Idempotency-Key", "k"); w.Code != http.StatusCreated {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestTroubleIsAProblem(t *testing.T) {
	a := newTestAPI(t)
	a.mux.HandleFunc("GET /v1/panic", func(http.ResponseWriter, *http.Request) { panic("boom") })
	w := send(t, a.Handler(), http.MethodGet, "/v1/panic", "")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"code":"internal"`) ||
		strings.Contains(w.Body.String(), "boom") {
		t.Errorf("panic: %d %s", w.Code, w.Body)
	}
	if err := a.Store.Close(); err != nil {
		t.Fatal(err)
	}
	w = send(t, a.Handler(), http.MethodGet, "/v1/instances", "")
	if w.Code != http.StatusInternalServerError || w.Header().Get("Content-Type") != cloudv1.MediaTypeProblem {
		t.Errorf("the state is closed: %d %s", w.Code, w.Body)
	}
	w = send(t, a.Handler(), http.MethodGet, "/v1/meta", "")
	if !strings.Contains(w.Body.String(), `"status":"degraded"`) {
		t.Errorf("the state is closed: %s", w.Body)
	}
}

func TestMatches(t *testing.T) {
	tests := map[string]struct {
		header string
		weak   bool
		want   bool
	}{
		"same":              {`"7"`, false, true},
		"unquoted":          {`7`, false, true},
		"other":             {`"8"`, false, false},
		"one of several":    {`"8", "7"`, false, true},
		"any":               {`*`, false, true},
		"weak, for reads":   {`W/"7"`, true, true},
		"weak, for writes":  {`W/"7"`, false, false},
		"part of the value": {`"77"`, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := matches(test.header, "7", test.weak); got != test.want {
				t.Errorf("matches(%s) = %t", test.header, got)
			}
		})
	}
}

func TestPointer(t *testing.T) {
	tests := map[string]string{
		"body":                   "",
		"body.name":              "/name",
		"body.listeners[0].port": "/listeners/0/port",
		"body.tags.a~2b~1c~3d~4": "/tags/a.b~1c[d]",
		"body.tags.~02":          "/tags/~02",
		"query.limit":            "query/limit",
	}
	for location, want := range tests {
		if got := pointer(location); got != want {
			t.Errorf("pointer(%q) = %q, want %q", location, got, want)
		}
	}
}
