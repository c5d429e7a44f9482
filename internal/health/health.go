// Package health answers the probes of our processes. Unlike the handlers of the libraries, it says in the log and in the
// response which check failed and why.
package health

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// Check is a named condition of the process.
type Check struct {
	Name string
	// Check returns the reason why the condition does not hold, or nil.
	Check func(*http.Request) error
}

// Ping is a check that succeeds as long as the process answers.
func Ping() Check { return Check{"ping", func(*http.Request) error { return nil }} }

// Handler answers a probe. It logs what has changed since the last one.
type Handler struct {
	probe  string
	logger logr.Logger
	checks []Check

	mu sync.Mutex
	// failing holds the causes of the checks that failed last, by their names.
	failing map[string]string
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns the handler of a probe, which succeeds if all checks do.
func NewHandler(probe string, logger logr.Logger, checks ...Check) *Handler {
	return &Handler{probe: probe, logger: logger, checks: checks, failing: map[string]string{}}
}

// ServeHTTP runs the checks, or the one that the path names after the probe, whose cause is then the whole answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if name, one := strings.CutPrefix(r.URL.Path, "/"+h.probe+"/"); one {
		h.serveOne(w, r, name)
		return
	}
	var answer strings.Builder
	code := http.StatusOK
	for _, check := range h.checks {
		err := check.Check(r)
		h.note(check.Name, err)
		if err == nil {
			fmt.Fprintf(&answer, "[+]%s ok\n", check.Name)
			continue
		}
		fmt.Fprintf(&answer, "[-]%s failed: %s\n", check.Name, err)
		code = http.StatusInternalServerError
	}
	if code == http.StatusOK {
		answer.Reset()
		answer.WriteString("ok")
	}
	w.WriteHeader(code)
	_, _ = w.Write([]byte(answer.String())) // a prober that is gone needs no answer
}

func (h *Handler) serveOne(w http.ResponseWriter, r *http.Request, name string) {
	at := slices.IndexFunc(h.checks, func(c Check) bool { return c.Name == name })
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	if err := h.checks[at].Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok")) // a prober that is gone needs no answer
}

// note logs the result of a check if it differs from the last one.
func (h *Handler) note(check string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, failed := h.failing[check]
	switch {
	case err == nil && failed:
		delete(h.failing, check)
		h.logger.Info("Health check succeeds again", "probe", h.probe, "check", check)
	case err != nil && before != err.Error():
		h.failing[check] = err.Error()
		h.logger.Info("Health check failed", "probe", h.probe, "check", check, "cause", err.Error())
	}
}
