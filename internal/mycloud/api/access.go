package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/connections"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// role is what a token is for. It is the name of a security scheme in the document.
type role string

const (
	// roleClient is the role of clients: they may do everything except what only edges do.
	roleClient role = "bearer"
	// roleEdge is the role of edges: they may read everything, report of themselves, and read key pairs.
	roleEdge role = "edge"
	// roleRegistration is the role of machines that are not edges yet: they may register.
	roleRegistration role = "registration"
)

type callerKey struct{}

// caller is who sends a request.
type caller struct {
	role role
	// edge is the name of the edge that has the token; empty for other tokens.
	edge string
}

// schemes returns the security schemes of the document.
func schemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		string(roleClient): {Type: "http", Scheme: "bearer", Description: "The token of clients."},
		string(roleEdge):   {Type: "http", Scheme: "bearer", Description: "The own token of an edge."},
		string(roleRegistration): {
			Type: "http", Scheme: "bearer", Description: "The token that edges share, with which they only register.",
		},
	}
}

// permit lets only the roles use an operation.
func permit(roles ...role) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.Security = nil
		for _, r := range roles {
			op.Security = append(op.Security, map[string][]string{string(r): {}})
		}
	}
}

// permits reports whether a role may use an operation.
func permits(op *huma.Operation, r role) bool {
	return slices.ContainsFunc(op.Security, func(allowed map[string][]string) bool {
		_, ok := allowed[string(r)]
		return ok
	})
}

// authenticate rejects requests without a valid token.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := a.callerOf(r)
		if err != nil {
			a.Logger.ErrorContext(r.Context(), "Could not read a token", "error", err)
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

// callerOf returns who sends a request, and false without a valid token.
func (a *API) callerOf(r *http.Request) (who caller, valid bool, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	same := func(secret string) bool {
		return ok && secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	switch {
	case same(a.Token):
		return caller{role: roleClient}, true, nil
	case same(a.EdgeToken):
		return caller{role: roleRegistration}, true, nil
	}
	for name, secret := range a.EdgeTokens {
		if same(secret) {
			return caller{role: roleEdge, edge: name}, true, nil
		}
	}
	if !ok {
		return caller{}, false, nil
	}
	err = a.Store.View(func(tx *store.Tx) error {
		id := store.EdgeTokens.Get(tx, tokenHash(token))
		if id == "" {
			return nil
		}
		e, err := store.Edges.Get(tx, id)
		if err == nil {
			who, valid = caller{role: roleEdge, edge: e.Name}, true
		}
		return err
	})
	return who, valid, err
}

// tokenHash returns what is stored of a token.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// keepToken stores the own token of an edge that registers, unless another machine is the edge. A token of the
// administrator for that name replaces it once the edge is offline; the shared one never does.
func (a *API) keepToken(ctx context.Context, tx *store.Tx, e *cloudv1.Edge, token string) error {
	who, _ := ctx.Value(callerKey{}).(caller)
	if token == "" {
		if who.role == roleRegistration {
			return failure.InvalidField("/token", "is required with the token that edges share")
		}
		return nil
	}
	hash, has, err := tokenHash(token), "", error(nil)
	if has, err = tokenOf(tx, e.ID); err != nil || has == hash {
		return err
	}
	if other := store.EdgeTokens.Get(tx, hash); other != "" {
		return failure.New(http.StatusConflict, cloudv1.CodeConflict, "the edge %s has the same token; start this one with a different "+
			"--data-dir, or delete its file edge-token", other).On(store.Edges.Name, other)
	}
	if has != "" {
		if who.role == roleRegistration {
			return failure.New(http.StatusConflict, cloudv1.CodeConflict, "another machine is the edge %q; start this one with a different "+
				"--name, or delete edge %s if its machine is gone", e.Name, e.ID).On(store.Edges.Name, e.ID)
		}
		if e.State != cloudv1.EdgeOffline {
			return failure.New(http.StatusConflict, cloudv1.CodeConflict, "another machine is the edge %q; start this one with a different "+
				"--name, or stop the other one", e.Name).On(store.Edges.Name, e.ID)
		}
		if err := store.EdgeTokens.Delete(tx, has); err != nil {
			return err
		}
	}
	return store.EdgeTokens.Set(tx, hash, e.ID)
}

// tokenOf returns the hash of an edge's own token; empty if it has none.
func tokenOf(tx *store.Tx, edge string) (string, error) {
	all, err := store.EdgeTokens.All(tx)
	for _, p := range all {
		if p.Value == edge {
			return p.Key, nil
		}
	}
	return "", err
}

// checkEdge returns a failure unless the sender of a request may report as the edge with a name.
func (a *API) checkEdge(ctx context.Context, name string) error {
	who, _ := ctx.Value(callerKey{}).(caller)
	if who.edge == name {
		return nil
	}
	if who.edge != "" {
		return failure.New(http.StatusForbidden, cloudv1.CodeForbidden,
			"the token is that of edge %q, not of edge %q; start the edge with --name %s or with a token of its own",
			who.edge, name, who.edge)
	}
	if _, bound := a.EdgeTokens[name]; bound {
		return failure.New(http.StatusForbidden, cloudv1.CodeForbidden,
			"edge %q has a token of its own, which this is not; start the edge with that token or with a different --name", name)
	}
	return nil
}

// authorize rejects requests whose role does not allow the operation.
func authorize(op *huma.Operation, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(caller)
		if permits(op, who.role) {
			next(w, r)
			return
		}
		needed := "the token of clients"
		switch {
		case who.role == roleClient:
			needed = "the token of an edge"
		case permits(op, roleEdge):
			needed = "the edge's own token; that which edges share only registers"
		}
		failure.New(http.StatusForbidden, cloudv1.CodeForbidden, "%s requires %s", op.OperationID, needed).Write(w, r)
	}
}
