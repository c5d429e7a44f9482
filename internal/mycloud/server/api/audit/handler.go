package audit

import (
	"net"
	"net/http"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
)

// pathMax limits what an entry has of a path.
const pathMax = 1024

// Wrap keeps an entry of each request that writes. The caller is known by then.
func (l *Log) Wrap(next http.Handler, writes func(*http.Request) bool) http.Handler {
	if l == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !writes(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, n := withNote(r.Context())
		seen := &recorder{ResponseWriter: w}
		// Also if the handler panics.
		defer func() { l.Append(ctx, entryOf(r, seen, n)) }()
		next.ServeHTTP(seen, r.WithContext(ctx))
	})
}

func entryOf(r *http.Request, seen *recorder, n *note) *Entry {
	who := access.Of(r.Context())
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	e := &Entry{
		Time: time.Now().UTC(), Actor: Actor{Kind: string(who.Kind), Name: who.Name, Role: string(who.Role)}, From: from,
		RequestID: r.Header.Get(cloudv1.HeaderRequestID), Method: r.Method, Path: r.URL.Path[:min(len(r.URL.Path), pathMax)],
		DryRun: r.URL.Query().Get("dry_run") == "true", Resource: n.resource, Revision: n.revision, Status: seen.status,
	}
	if e.Status == 0 {
		// It panicked before it responded.
		e.Status = http.StatusInternalServerError
	}
	if e.Revision == "" && e.Status < http.StatusBadRequest && !e.DryRun {
		_, e.Revision, _ = strings.Cut(seen.Header().Get(cloudv1.HeaderState), ";revision=")
	}
	return e
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
