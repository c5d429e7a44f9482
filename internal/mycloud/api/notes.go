package api

import (
	"context"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// notes are what a request leaves behind for the problem that may answer it. The library ends a request that does not
// fit its schema before the handler sees it; what only the state can tell of its tree is to be told all the same.
type notes struct{ tree *cloudv1.LoadBalancerFields }

type notesKey struct{}

func withNotes(ctx context.Context) context.Context {
	return context.WithValue(ctx, notesKey{}, new(notes))
}

// noteTree remembers the tree of a request.
func noteTree(ctx context.Context, s *cloudv1.LoadBalancerSpec) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.tree = &s.LoadBalancerFields
	}
}

// addDangling adds the fields of the request's tree that name what does not exist, but for those at fault already.
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
