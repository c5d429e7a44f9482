package operation

import (
	"context"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// notes holds what to check of a request for the problem that may be the response.
type notes struct {
	check func(*store.Tx) ([]cloudv1.ProblemField, error)
}

type notesKey struct{}

func withNotes(ctx context.Context) context.Context {
	return context.WithValue(ctx, notesKey{}, new(notes))
}

// Note stores what to check if the body of a request is invalid. The library rejects a request that does not match its
// schema before the handler sees it, but the problem should list what only the state shows, too.
func Note(ctx context.Context, check func(*store.Tx) ([]cloudv1.ProblemField, error)) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.check = check
	}
}

// addNoted adds the problems of a request's check, except for fields that already have a problem.
func addNoted(ctx context.Context, s store.Store, problems []cloudv1.ProblemField) ([]cloudv1.ProblemField, error) {
	n, ok := ctx.Value(notesKey{}).(*notes)
	if !ok || n.check == nil {
		return problems, nil
	}
	err := s.View(func(tx *store.Tx) error {
		found, err := n.check(tx)
		for _, f := range found {
			if !slices.ContainsFunc(problems, func(p cloudv1.ProblemField) bool { return p.Pointer == f.Pointer }) {
				problems = append(problems, f)
			}
		}
		return err
	})
	return problems, err
}
