// Package access decides who may use which operations, by bearer tokens.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/connections"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Role is what a token is for. It is the name of a security scheme in the document.
type Role string

const (
	// Client is the role of clients: they may do everything except what only edges do.
	Client Role = "bearer"
	// Edge is the role of edges: they may read everything, report of themselves, and read key pairs.
	Edge Role = "edge"
	// Registration is the role of machines that are not edges yet: they may register.
	Registration Role = "registration"
)

type callerKey struct{}

// Caller is who sends a request.
type Caller struct {
	Role Role
	// Edge is the name of the edge that has the token; empty for other tokens.
	Edge string
}

// Of returns who sends the request of a context.
func Of(ctx context.Context) Caller {
	who, _ := ctx.Value(callerKey{}).(Caller)
	return who
}

// Tokens are the valid tokens.
type Tokens struct {
	// Client is the token of clients.
	Client string
	// Shared is the token of the edges without one of their own; if empty, there are none.
	Shared string
	// Edges are the tokens of single edges by name, besides those with which edges have registered.
	Edges map[string]string
	// Store has the tokens of registered edges.
	Store  store.Store
	Logger *slog.Logger
}

// Schemes returns the security schemes of the document.
func Schemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		string(Client): {Type: "http", Scheme: "bearer", Description: "The token of clients."},
		string(Edge):   {Type: "http", Scheme: "bearer", Description: "The own token of an edge."},
		string(Registration): {
			Type: "http", Scheme: "bearer", Description: "The token that edges share, with which they only register.",
		},
	}
}

// Permit lets only the roles use an operation.
func Permit(roles ...Role) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.Security = nil
		for _, r := range roles {
			op.Security = append(op.Security, map[string][]string{string(r): {}})
		}
	}
}

// permits reports whether a role may use an operation.
func permits(op *huma.Operation, r Role) bool {
	return slices.ContainsFunc(op.Security, func(allowed map[string][]string) bool {
		_, ok := allowed[string(r)]
		return ok
	})
}

// Authenticate rejects requests without a valid token.
func (t *Tokens) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := t.CallerOf(r)
		if err != nil {
			t.Logger.ErrorContext(r.Context(), "Could not read a token", "error", err)
			failure.Internal().Write(w, r)
			return
		}
		if !ok {
			// The response must not wait for a body, which may never arrive.
			setReadDeadline(w, time.Unix(1, 0))
			w.Header().Set("WWW-Authenticate", `Bearer realm="mycloud"`)
			failure.New(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "a valid bearer token is required").Write(w, r)
			return
		}
		connections.Trust(r.Context())
		if r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// bodyTimeout is how long a body may take to arrive.
const bodyTimeout = 30 * time.Second

// setReadDeadline sets until when the body of a request must have arrived. A writer without deadlines, as in tests, has no
// body that stalls.
func setReadDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// CallerOf returns who sends a request, and false without a valid token.
func (t *Tokens) CallerOf(r *http.Request) (who Caller, valid bool, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	same := func(secret string) bool {
		return ok && secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	switch {
	case same(t.Client):
		return Caller{Role: Client}, true, nil
	case same(t.Shared):
		return Caller{Role: Registration}, true, nil
	}
	for name, secret := range t.Edges {
		if same(secret) {
			return Caller{Role: Edge, Edge: name}, true, nil
		}
	}
	if !ok {
		return Caller{}, false, nil
	}
	err = t.Store.View(func(tx *store.Tx) error {
		id := store.EdgeTokens.Get(tx, Hash(token))
		if id == "" {
			return nil
		}
		e, err := store.Edges.Get(tx, id)
		if err == nil {
			who, valid = Caller{Role: Edge, Edge: e.Name}, true
		}
		return err
	})
	return who, valid, err
}

// Hash returns what is stored of a token.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Authorize rejects requests whose role does not allow the operation.
func Authorize(op *huma.Operation, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := Of(r.Context())
		if permits(op, who.Role) {
			next(w, r)
			return
		}
		needed := "the token of clients"
		switch {
		case who.Role == Client:
			needed = "the token of an edge"
		case permits(op, Edge):
			needed = "the edge's own token; that which edges share only registers"
		}
		failure.New(http.StatusForbidden, cloudv1.CodeForbidden, "%s requires %s", op.OperationID, needed).Write(w, r)
	}
}
