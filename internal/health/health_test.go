package health_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/health"
)

// A failed check is named with its cause, in the response and, when it changes, in the log.
func TestHandler(t *testing.T) {
	var log []string
	logger := funcr.New(func(_, line string) { log = append(log, line) }, funcr.Options{})
	var problem error
	handler := health.NewHandler("readyz", logger, health.Ping(),
		health.Check{Name: "certificate", Check: func(*http.Request) error { return problem }})
	for _, step := range []struct {
		problem error
		code    int
		body    string
		logged  string
	}{
		{nil, http.StatusOK, "ok", ""},
		{
			errors.New("no Secret"), http.StatusInternalServerError, "[+]ping ok\n[-]certificate failed: no Secret\n",
			`"level"=0 "msg"="Health check failed" "probe"="readyz" "check"="certificate" "cause"="no Secret"`,
		},
		{errors.New("no Secret"), http.StatusInternalServerError, "[+]ping ok\n[-]certificate failed: no Secret\n", ""},
		{
			errors.New("expired"), http.StatusInternalServerError, "[+]ping ok\n[-]certificate failed: expired\n",
			`"level"=0 "msg"="Health check failed" "probe"="readyz" "check"="certificate" "cause"="expired"`,
		},
		{nil, http.StatusOK, "ok", `"level"=0 "msg"="Health check succeeds again" "probe"="readyz" "check"="certificate"`},
	} {
		problem, log = step.problem, nil
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		var logged []string
		if step.logged != "" {
			logged = []string{step.logged}
		}
		if rec.Code != step.code || rec.Body.String() != step.body || !cmp.Equal(log, logged) {
			t.Errorf("%v: %d %q, log %q; want %d %q, log %q", step.problem, rec.Code, rec.Body, log, step.code, step.body, logged)
		}
	}
}

// One check can be asked for by its name, whatever the others say.
func TestOneCheck(t *testing.T) {
	handler := health.NewHandler("readyz", funcr.New(func(_, line string) { t.Error(line) }, funcr.Options{}), health.Ping(),
		health.Check{Name: "certificate", Check: func(*http.Request) error { return errors.New("no Secret") }})
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/readyz/ping":        {http.StatusOK, "ok"},
		"/readyz/certificate": {http.StatusInternalServerError, "no Secret\n"},
		"/readyz/other":       {http.StatusNotFound, "404 page not found\n"},
	} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if rec.Code != want.code || rec.Body.String() != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, rec.Code, rec.Body, want.code, want.body)
		}
	}
}
