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

type roleKey struct{}

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
		who, ok := a.roleOf(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mycloud"`)
			writeFailure(w, r, fail(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "a valid bearer token is required"))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, who)))
	})
}

func (a *API) roleOf(r *http.Request) (role, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	same := func(secret string) bool {
		return ok && secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	switch {
	case same(a.Token):
		return roleClient, true
	case same(a.EdgeToken):
		return roleEdge, true
	}
	return "", false
}

// authorize rejects requests whose role does not allow the operation.
func authorize(op *huma.Operation, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(roleKey{}).(role)
		if permits(op, who) {
			next(w, r)
			return
		}
		needed := "clients"
		if who == roleClient {
			needed = "edges"
		}
		writeFailure(w, r, fail(http.StatusForbidden, cloudv1.CodeForbidden, "%s requires the token of %s", op.OperationID, needed))
	}
}
