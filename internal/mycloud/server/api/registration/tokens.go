package registration

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// keepToken stores the own token of an edge that registers, unless another machine is the edge. A token of the
// administrator for that name replaces it once the edge is offline; the shared one never does.
func (a *Edges) keepToken(ctx context.Context, tx *store.Tx, e *cloudv1.Edge, token string) error {
	who := access.Of(ctx)
	if token == "" {
		if who.Role == access.Registration {
			return failure.InvalidField("/token", "is required with the token that edges share")
		}
		return nil
	}
	hash, has, err := access.Hash(token), "", error(nil)
	if has, err = tokenOf(tx, e.ID); err != nil || has == hash {
		return err
	}
	if other := store.EdgeTokens.Get(tx, hash); other != "" {
		return failure.New(http.StatusConflict, cloudv1.CodeConflict, "the edge %s has the same token; start this one with a different "+
			"--data-dir, or delete its file edge-token", other).On(store.Edges.Name, other)
	}
	if has != "" {
		if who.Role == access.Registration {
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
func (a *Edges) checkEdge(ctx context.Context, tx *store.Tx, name string) error {
	who := access.Of(ctx)
	if who.Edge == name {
		return nil
	}
	if who.Edge != "" {
		return failure.New(http.StatusForbidden, cloudv1.CodeForbidden,
			"the token is that of edge %q, not of edge %q; start the edge with --name %s or with a token of its own",
			who.Edge, name, who.Edge)
	}
	if a.tokens.Bound(tx, name) {
		return failure.New(http.StatusForbidden, cloudv1.CodeForbidden,
			"edge %q has a token of its own, which this is not; start the edge with that token or with a different --name", name)
	}
	return nil
}
