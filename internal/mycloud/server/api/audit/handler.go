package audit

import (
	"net"
	"net/http"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/status"
)

// pathMax limits what an entry has of a path.
const pathMax = 256

// Wrap keeps an entry of each request that writes. The caller is known by then. Of those that the caller may not send, it
// keeps a few: they must not displace the others.
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
		ctx, permitted := access.Watch(ctx)
		seen := &status.Recorder{ResponseWriter: w}
		// Also if the handler panics.
		defer func() {
			e := entryOf(r, seen, n)
			if *permitted || l.refusals.Allow(e.Actor) {
				l.Append(ctx, e)
			} else {
				l.omitted.Inc()
			}
		}()
		next.ServeHTTP(seen, r.WithContext(ctx))
	})
}

func entryOf(r *http.Request, seen *status.Recorder, n *note) *Entry {
	who := access.Of(r.Context())
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	e := &Entry{
		Time: time.Now().UTC(), Actor: Actor{Kind: string(who.Kind), Name: who.Name, Role: string(who.Role)}, From: from,
		RequestID: r.Header.Get(cloudv1.HeaderRequestID), Method: r.Method, Path: r.URL.Path[:min(len(r.URL.Path), pathMax)],
		DryRun: n.dryRun, Resource: n.resource, Revision: n.revision, Status: seen.Status,
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
