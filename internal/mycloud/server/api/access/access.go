// Package access decides who may use which operations: by bearer tokens or client certificates, their roles, and one table of
// what each role may do.
package access

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/connections"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

type (
	callerKey    struct{}
	permittedKey struct{}
)

// Caller is who sends a request.
type Caller struct {
	Role Role
	// Edge is the name of the edge that has the token; empty for other tokens.
	Edge string
	// Kind is the kind of proof that the caller sent, and Name is whom it proves.
	Kind Kind
	Name string
	// token is the id of a token of the API, and hash that of an edge's own token.
	token, hash string
	// expires is when the proof ends, in UTC; zero if it does not.
	expires time.Time
}

// Kind names what proves who a caller is.
type Kind string

const (
	// ByFlag is the kind of callers with a token of the server's flags, by whose name they are known.
	ByFlag Kind = "flag"
	// ByToken is the kind of callers with a token of the API.
	ByToken Kind = "token"
	// ByOwnToken is the kind of edges with the token that they registered.
	ByOwnToken Kind = "edge"
	// ByCertificate is the kind of callers with a client certificate, by whose common name they are known.
	ByCertificate Kind = "certificate"
)

// stored reports whether the permission is part of the state, so that other servers may have changed it.
func (c Caller) stored() bool { return c.Kind == ByToken || c.Kind == ByOwnToken }

// permission is a caller and the state that decides for how long it is one.
type permission struct {
	Caller

	store store.Store
}

func permissionOf(ctx context.Context) permission {
	p, _ := ctx.Value(callerKey{}).(permission)
	return p
}

// Of returns who sends the request of a context.
func Of(ctx context.Context) Caller {
	return permissionOf(ctx).Caller
}

// Authenticate rejects requests without a valid token or certificate, by what this server knows already: strangers must not
// make it ask the others for each of their requests.
func (t *Tokens) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := t.callerOf(r)
		if err == nil && who.Role == "" && hasBearer(r) {
			// Another server may have created the token a moment ago.
			if err = t.Stranger.Current(r.Context()); err == nil {
				who, err = t.callerOf(r)
			}
		}
		// Responses have secrets, and all of them depend on the caller.
		w.Header().Set("Cache-Control", "no-store")
		if err != nil || who.Role == "" {
			// The response must not wait for a body, which may never arrive. Without one, the deadline would end the context of
			// all requests that follow on the connection, such as with another token.
			if r.ContentLength != 0 {
				setReadDeadline(w, time.Unix(1, 0))
			}
			t.refuse(w, r, err)
			return
		}
		connections.Trust(r.Context())
		if r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(bodyTimeout))
		}
		if who.token != "" {
			t.uses.note(who.token, t.Clock.Now())
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, permission{who, t.Store})))
	})
}

// Confirm rejects requests whose token another server has revoked. It comes after what makes the state current.
func (t *Tokens) Confirm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if was := Of(r.Context()); was.stored() {
			if who, err := t.callerOf(r); err != nil || who != was {
				t.refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Valid returns an error unless the caller of a context still has its permission in a transaction. A request may arrive before
// its token is revoked, and its body afterwards.
func Valid(ctx context.Context, tx *store.Tx) error {
	who := Of(ctx)
	switch {
	case !who.expires.IsZero() && !tx.Now.Before(who.expires):
		return failure.New(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "the token or the client certificate has expired")
	case who.Kind == ByToken && store.TokenHashes.Get(tx, who.token) == "",
		who.Kind == ByOwnToken && store.EdgeTokens.Get(tx, who.hash) == "":
		return failure.New(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "the token was revoked")
	}
	return nil
}

// Remaining returns an error like Valid, or else how long the permission lasts at most. Handlers call it after they have waited:
// for a body, or for something to respond with.
func Remaining(ctx context.Context) (time.Duration, error) {
	p, left := permissionOf(ctx), time.Duration(math.MaxInt64)
	if p.store == nil {
		return left, nil
	}
	err := p.store.View(func(tx *store.Tx) error {
		if !p.expires.IsZero() {
			left = p.expires.Sub(tx.Now)
		}
		return Valid(ctx, tx)
	})
	return left, err
}

// refuse responds to a request without a valid token, or whose token cannot be read.
func (t *Tokens) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		if errors.Is(err, store.ErrUnavailable) {
			// The cause may name machines, which a stranger must not learn of.
			failure.New(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "%s", store.ErrUnavailable).RetryAfter(time.Second).Write(w, r)
			return
		}
		t.Logger.ErrorContext(r.Context(), "Could not read a token", "error", err)
		failure.Internal().Write(w, r)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="mycloud"`)
	failure.New(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "a valid bearer token or client certificate is required").Write(w, r)
}

// bodyTimeout is how long a body may take to arrive, whatever is requested.
const bodyTimeout = 30 * time.Second

// setReadDeadline sets until when the body of a request must have arrived. A writer without deadlines, as in tests, has no
// body that stalls.
func setReadDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// Watch returns a context in which Authorize notes that it has permitted the request.
func Watch(ctx context.Context) (watched context.Context, permitted *bool) {
	if known, ok := ctx.Value(permittedKey{}).(*bool); ok {
		return ctx, known
	}
	permitted = new(bool)
	return context.WithValue(ctx, permittedKey{}, permitted), permitted
}

// Authorize rejects requests whose role does not allow an operation.
func Authorize(operation string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := Of(r.Context()).Role
		if permits(operation, who) {
			if permitted, ok := r.Context().Value(permittedKey{}).(*bool); ok {
				*permitted = true
			}
			next(w, r)
			return
		}
		failure.New(http.StatusForbidden, cloudv1.CodeForbidden, "%s requires %s", operation, needed(operation, who)).Write(w, r)
	}
}
