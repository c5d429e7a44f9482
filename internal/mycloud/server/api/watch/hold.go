// Package watch serves what clients wait for: the end of jobs and changes of objects. They can let the cloud hold the
// response until there is news.
package watch

import (
	"context"
	"time"

	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/store"
)

// hold calls read now and after each change, until it is done or has failed, or the client's wait is over. It returns an
// error as soon as the caller has lost its permission: what read has found may be newer than that.
func hold(ctx context.Context, s store.Store, seconds int, read func() (done bool, err error)) error {
	held, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	for {
		changed := s.Changed()
		done, err := read()
		if err != nil {
			return err
		}
		left, err := access.Remaining(ctx)
		if err != nil || done {
			return err
		}
		expired := time.NewTimer(left)
		select {
		case <-changed:
		case <-expired.C:
		case <-held.Done():
			expired.Stop()
			return nil
		}
		expired.Stop()
	}
}
