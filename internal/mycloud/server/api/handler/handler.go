// Package handler wraps what every request of the API goes through around its operations: ids and logs of requests,
// authentication, rate limits and the state that clients have seen.
package handler

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/audit"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/status"
	"quaymaster.dev/internal/mycloud/server/page"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Options holds the dependencies of a handler.
type Options struct {
	Store store.Store
	Clock clock.PassiveClock
	// Tokens are the tokens of clients and edges.
	Tokens *access.Tokens
	Limits RateLimits
	// Faults injects faults into requests; it may be nil.
	Faults func(http.Handler) http.Handler
	// Audit keeps who writes what; it may be nil.
	Audit *audit.Log
	// Admin serves /admin/faults; it may be nil.
	Admin http.Handler
	// Backup serves a backup of the state.
	Backup http.Handler
	// Page returns the handler of page.Path, whose requests of those who are logged in go through the argument. It may be
	// nil.
	Page   func(limited func(http.Handler) http.Handler) http.Handler
	Logger *slog.Logger
}

// New returns the handler of operations, of HealthPath and of ReadyPath.
func New(operations http.Handler, o Options) http.Handler {
	limits := newLimiter(o.Clock, o.Limits)
	// What a limit refuses changes nothing, and must not fill the log.
	h := limit(limits, o.Audit.Wrap(operations, writes))
	if o.Faults != nil {
		h = o.Faults(h)
	}
	h = o.admin(h)
	// Injected faults look like what the cloud itself answers.
	h = o.sameState(h)
	// A token may have been revoked by another server.
	h = o.Tokens.Confirm(h)
	h = o.current(h)
	// Strangers come no further: what follows may ask other machines.
	h = o.Tokens.Authenticate(h)
	h = o.page(limits, h)
	h = o.health(h)
	h = o.recoverPanics(h)
	h = o.logRequests(h)
	return identify(h)
}

// identify assigns every request an id, which the response repeats.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(cloudv1.HeaderRequestID)
		if id == "" || len(id) > 128 {
			id = rand.Text()
			r.Header.Set(cloudv1.HeaderRequestID, id)
		}
		w.Header().Set(cloudv1.HeaderRequestID, id)
		next.ServeHTTP(w, r)
	})
}

func (o *Options) logRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &status.Recorder{ResponseWriter: w}
		next.ServeHTTP(rec, r)
		o.Logger.DebugContext(r.Context(), "Answered", "method", r.Method, "uri", r.URL.RequestURI(), "status", rec.Status,
			"duration", time.Since(start), "requestID", r.Header.Get(cloudv1.HeaderRequestID))
	})
}

// recoverPanics responds with 500 if a handler panics before it has responded.
func (o *Options) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				o.panicked(w, r, p)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (o *Options) panicked(w http.ResponseWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	o.Logger.ErrorContext(r.Context(), "Panicked", "method", r.Method, "path", r.URL.Path,
		"requestID", r.Header.Get(cloudv1.HeaderRequestID), "panic", p, "stack", string(debug.Stack()))
	if rec, ok := w.(*status.Recorder); ok && rec.Status != 0 {
		// A truncated response must not look like a complete one.
		panic(http.ErrAbortHandler)
	}
	failure.Internal().Write(w, r)
}

const (
	// HealthPath needs no token: whether the server runs.
	HealthPath = "/healthz"
	// ReadyPath needs no token: whether the server reaches the state.
	ReadyPath = "/readyz"
)

func (o *Options) health(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch r.URL.Path {
		case HealthPath:
		case ReadyPath:
			err = o.Tokens.Stranger.Current(r.Context())
		default:
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			// The cause is in the log, and may name machines, which a stranger must not learn of.
			_, _ = w.Write([]byte(store.ErrUnavailable.Error() + "\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
}

// page serves the page, which shows what there is even if the state cannot be reached.
func (o *Options) page(limits *limiter, next http.Handler) http.Handler {
	if o.Page == nil {
		return next
	}
	shown := o.Page(func(h http.Handler) http.Handler { return limit(limits, h) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path+"/", page.Path) {
			shown.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admin serves the endpoints of administrators, which are not part of the API.
func (o *Options) admin(next http.Handler) http.Handler {
	served := map[string]http.Handler{cloudv1.BackupPath: o.Backup}
	if o.Admin != nil {
		served["/admin/faults"] = o.Admin
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := served[r.URL.Path]
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		// A backup has all that the cloud knows, so that reading it counts, too.
		all := func(*http.Request) bool { return true }
		o.Audit.Wrap(access.Authorize(access.Administration, h.ServeHTTP), all).ServeHTTP(w, r)
	})
}
