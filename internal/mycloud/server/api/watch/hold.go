// Package watch serves what clients wait for: the end of jobs and changes of objects. They can let the cloud hold the
// response until there is news.
package watch

import (
	"context"
	"time"

	"quaymaster.dev/internal/mycloud/server/store"
)

// hold calls read now and after each change, until it is done or has failed, or the client's wait is over.
func hold(ctx context.Context, s store.Store, seconds int, read func() (done bool, err error)) error {
	held, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	for {
		changed := s.Changed()
		if done, err := read(); done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-held.Done():
			return nil
		}
	}
}
