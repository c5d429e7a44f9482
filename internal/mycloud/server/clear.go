package server

import (
	"context"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// Tombstones and answers are kept a day longer than the API promises, which is seven days and one day.
	tombstoneLife = 8 * 24 * time.Hour
	answerLife    = 48 * time.Hour
	jobLife       = 48 * time.Hour
	// deletionLife is how long the feed of changes reports deletions.
	deletionLife = 24 * time.Hour

	clearEvery = time.Hour
)

// clear deletes expired tombstones, jobs and answers, immediately and then every hour.
func (s *Server) clear(ctx context.Context, st store.Store) {
	for {
		if err := st.Update(clearOld); err != nil {
			s.logger.ErrorContext(ctx, "Could not delete expired records", "error", err)
		}
		timer := s.clock.NewTimer(clearEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

func clearOld(tx *store.Tx) error {
	err := clearKind(tx, store.Instances, func(i *cloudv1.Instance) bool { return older(tx, i.DeletedAt, tombstoneLife) })
	if err != nil {
		return err
	}
	err = clearKind(tx, store.Jobs, func(j *cloudv1.Job) bool { return older(tx, j.FinishedAt, jobLife) })
	if err != nil {
		return err
	}
	if err := tx.DropDeletions(tx.Now.Add(-deletionLife)); err != nil {
		return err
	}
	return tx.DropAnswers(tx.Now.Add(-answerLife))
}

func clearKind[T any](tx *store.Tx, k store.Kind[T], old func(*T) bool) error {
	var ids []string
	err := k.Each(tx, func(v *T) error {
		if old(v) {
			ids = append(ids, k.Object(v).ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := k.Delete(tx, id); err != nil {
			return err
		}
	}
	return nil
}

func older(tx *store.Tx, t *time.Time, than time.Duration) bool {
	return t != nil && tx.Now.Sub(*t) > than
}
