package handler

import (
	"net/http"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// current lets requests see everything that any server has answered before. Reads whose clients accept a former state,
// with Cache-Control: max-stale, do not depend on that.
func (o *Options) current(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !read || !strings.Contains(r.Header.Get("Cache-Control"), "max-stale") {
			if err := o.Store.Current(r.Context()); err != nil {
				failure.New(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "%s", err).RetryAfter(time.Second).Write(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// sameState rejects requests of clients that have seen a different cloud, or a state of this one that was lost. Responses
// name the state, and that of a write includes the write.
func (o *Options) sameState(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &stateWriter{ResponseWriter: w, options: o}
		if seen := r.Header.Get(cloudv1.HeaderState); seen != "" {
			if f := o.checkSeen(seen); f != nil {
				f.Write(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkSeen returns a failure unless the state that a client has seen is one of this cloud.
func (o *Options) checkSeen(seen string) *failure.Error {
	id, revision, ok := strings.Cut(seen, ";revision=")
	if !ok {
		return failure.New(http.StatusBadRequest, cloudv1.CodeInvalid, "header %s must be <id>;revision=<revision>, not %q",
			cloudv1.HeaderState, seen)
	}
	var f *failure.Error
	err := o.Store.View(func(tx *store.Tx) error {
		if own := tx.CloudID(); id != own {
			f = failure.New(http.StatusPreconditionFailed, cloudv1.CodeOtherState, "this is cloud %s, not %s", own, id)
		} else if _, known := tx.Number(revision); !known {
			f = failure.New(http.StatusPreconditionFailed, cloudv1.CodeOtherState,
				"revision %s is not known: the cloud was restored to an earlier state", revision)
		}
		return nil
	})
	if err != nil {
		return failure.New(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "the state cannot be read")
	}
	return f
}

// state returns the header of responses, which is empty if the state cannot be read.
func (o *Options) state() string {
	var state string
	err := o.Store.View(func(tx *store.Tx) error {
		state = tx.CloudID() + ";revision=" + tx.Revision()
		return nil
	})
	if err != nil {
		return ""
	}
	return state
}

// stateWriter adds the state of the cloud to a response when it begins: its request has taken effect then.
type stateWriter struct {
	http.ResponseWriter
	options *Options
	begun   bool
}

// WriteHeader adds the header.
func (w *stateWriter) WriteHeader(status int) {
	if !w.begun {
		w.begun = true
		if state := w.options.state(); state != "" {
			w.Header().Set(cloudv1.HeaderState, state)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write adds the header, too.
func (w *stateWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *stateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
