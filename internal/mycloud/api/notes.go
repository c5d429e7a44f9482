package api

import (
	"context"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// notes holds the tree of a request for the problem that may be the response. The library rejects a request that does
// not match its schema before the handler sees it, but the problem should list dangling references, too.
type notes struct{ tree *cloudv1.LoadBalancerFields }

type notesKey struct{}

func withNotes(ctx context.Context) context.Context {
	return context.WithValue(ctx, notesKey{}, new(notes))
}

// noteTree stores the tree of a request in its notes.
func noteTree(ctx context.Context, s *cloudv1.LoadBalancerSpec) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.tree = &s.LoadBalancerFields
	}
}

// addDangling adds the dangling references of the request's tree, except for fields that already have a problem.
func (a *API) addDangling(ctx context.Context, problems []cloudv1.ProblemField) ([]cloudv1.ProblemField, error) {
	n, ok := ctx.Value(notesKey{}).(*notes)
	if !ok || n.tree == nil {
		return problems, nil
	}
	err := a.Store.View(func(tx *store.Tx) error {
		dangling, err := danglingReferences(tx, n.tree)
		for _, d := range dangling {
			if !slices.ContainsFunc(problems, func(p cloudv1.ProblemField) bool { return p.Pointer == d.Pointer }) {
				problems = append(problems, d)
			}
		}
		return err
	})
	return problems, err
}
