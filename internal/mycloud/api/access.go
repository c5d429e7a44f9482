package api

import (
	"context"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// role is what a token is for. It is the name of a security scheme in the document.
type role string

const (
	// roleClient is the role of clients: they may do everything except what only edges do.
	roleClient role = "bearer"
	// roleEdge is the role of edges: they may read everything, report of themselves, and read key pairs.
	roleEdge role = "edge"
)

type callerKey struct{}

// caller is who sends a request.
type caller struct {
	role role
	// edge is the name of the only edge that has the token; empty for other tokens.
	edge string
}

// schemes returns the security schemes of the document.
func schemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		string(roleClient): {Type: "http", Scheme: "bearer", Description: "The token of clients."},
		string(roleEdge):   {Type: "http", Scheme: "bearer", Description: "The token of edges."},
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
		who, ok := a.callerOf(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mycloud"`)
			writeFailure(w, r, fail(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "a valid bearer token is required"))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

func (a *API) callerOf(r *http.Request) (caller, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	same := func(secret string) bool {
		return ok && secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	switch {
	case same(a.Token):
		return caller{role: roleClient}, true
	case same(a.EdgeToken):
		return caller{role: roleEdge}, true
	}
	for name, secret := range a.EdgeTokens {
		if same(secret) {
			return caller{role: roleEdge, edge: name}, true
		}
	}
	return caller{}, false
}

// checkEdge returns a failure unless the sender of a request may report as the edge with a name.
func (a *API) checkEdge(ctx context.Context, name string) error {
	who, _ := ctx.Value(callerKey{}).(caller)
	if who.edge == name {
		return nil
	}
	if who.edge != "" {
		return fail(http.StatusForbidden, cloudv1.CodeForbidden,
			"the token is that of edge %q, not of edge %q; start the edge with --name %s or with a token of its own",
			who.edge, name, who.edge)
	}
	if _, bound := a.EdgeTokens[name]; bound {
		return fail(http.StatusForbidden, cloudv1.CodeForbidden,
			"edge %q has a token of its own, which this is not; start the edge with that token or with another --name", name)
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
		needed := "clients"
		if who.role == roleClient {
			needed = "edges"
		}
		writeFailure(w, r, fail(http.StatusForbidden, cloudv1.CodeForbidden, "%s requires the token of %s", op.OperationID, needed))
	}
}
