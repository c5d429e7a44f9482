package api

import (
	"crypto/rand"
	"errors"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
)

// Handler returns the HTTP handler of the API and /healthz.
func (a *API) Handler() http.Handler {
	var h http.Handler = a.mux
	h = verbs(h)
	h = a.limit(h)
	h = a.authenticate(h)
	if a.Faults != nil {
		h = a.Faults(h)
	}
	if a.Admin != nil {
		h = a.admin(h)
	}
	// Injected faults look like what the cloud itself answers.
	h = a.sameState(h)
	h = a.health(h)
	h = a.recoverPanics(h)
	h = a.logRequests(h)
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

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write records the status that it implies.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (a *API) logRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		next.ServeHTTP(rec, r)
		a.Logger.DebugContext(r.Context(), "Answered", "method", r.Method, "uri", r.URL.RequestURI(), "status", rec.status,
			"duration", time.Since(start), "requestID", r.Header.Get(cloudv1.HeaderRequestID))
	})
}

// recoverPanics responds with 500 if a handler panics before it has responded.
func (a *API) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				a.panicked(w, r, p)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (a *API) panicked(w http.ResponseWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	a.Logger.ErrorContext(r.Context(), "Panicked", "method", r.Method, "path", r.URL.Path,
		"requestID", r.Header.Get(cloudv1.HeaderRequestID), "panic", p, "stack", string(debug.Stack()))
	if rec, ok := w.(*recorder); ok && rec.status != 0 {
		// A truncated response must not look like a complete one.
		panic(http.ErrAbortHandler)
	}
	failure.Internal().Write(w, r)
}

// healthPath is the path that needs no token.
const healthPath = "/healthz"

func (a *API) health(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != healthPath {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
}

// admin serves the endpoint of administrators, which is not part of the API.
func (a *API) admin(next http.Handler) http.Handler {
	op := &huma.Operation{OperationID: "the administration of faults"}
	permit(roleClient)(op)
	authenticated := a.authenticate(authorize(op, a.Admin.ServeHTTP))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/faults" {
			authenticated.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// verbs rewrites /v1/instances/i-1:stop to /v1/instances/i-1/:stop, for the mux.
func verbs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		escaped := r.URL.EscapedPath()
		if strings.Contains(escaped, "/:") || path.Clean(escaped) != escaped {
			noSuchPath(r).Write(w, r)
			return
		}
		parts := strings.Split(escaped, "/")
		if len(parts) != 4 || !strings.Contains(parts[3], ":") {
			next.ServeHTTP(w, r)
			return
		}
		id, verb, _ := strings.Cut(parts[3], ":")
		u, err := r.URL.Parse(strings.Join(parts[:3], "/") + "/" + id + "/:" + verb)
		if err != nil {
			noSuchPath(r).Write(w, r)
			return
		}
		u.RawQuery = r.URL.RawQuery
		inner := *r
		inner.URL = u
		next.ServeHTTP(w, &inner)
	})
}

// unknownRequest responds to requests that match no operation. The response must not be mistaken for the absence of an
// object.
func (a *API) unknownRequest(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = m
		if _, pattern := a.mux.Handler(&probe); pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		noSuchPath(r).Write(w, r)
		return
	}
	failure.New(http.StatusMethodNotAllowed, cloudv1.CodeUnsupported, "method %s is not supported; must be one of %s",
		r.Method, strings.Join(allowed, ", ")).With("Allow", strings.Join(allowed, ", ")).Write(w, r)
}

func noSuchPath(r *http.Request) *failure.Error {
	return failure.New(http.StatusNotFound, cloudv1.CodeUnsupported, "unknown path %q", r.URL.Path)
}
