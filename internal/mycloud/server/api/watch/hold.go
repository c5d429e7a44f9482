// Package watch serves what clients wait for: the end of jobs and changes of objects. They can let the cloud hold the
// response until there is news.
package watch

import (
	"context"
	"net/http"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// maxHeld is how many responses are held for one caller: all edges and controllers of a cloud may share a token, and each
// of them waits for one response at a time.
const maxHeld = 500

// holds holds responses, and counts them by caller.
type holds struct {
	store store.Store

	mu sync.Mutex
	of map[access.Caller]int
}

func newHolds(s store.Store) *holds { return &holds{store: s, of: map[access.Caller]int{}} }

// begin counts a response to a caller, unless too many are held for it already.
func (h *holds) begin(who access.Caller) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[who] == maxHeld {
		return failure.New(http.StatusTooManyRequests, cloudv1.CodeRateLimited,
			"%d responses are held for this token or certificate already; ask without wait, or use a token for each client",
			maxHeld).RetryAfter(time.Second)
	}
	h.of[who]++
	return nil
}

func (h *holds) end(who access.Caller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[who]--; h.of[who] == 0 {
		delete(h.of, who)
	}
}

// until calls read now and after each change, until it is done or has failed, or the client's wait is over. It returns an
// error as soon as the caller has lost its permission: what read has found may be newer than that.
func (h *holds) until(ctx context.Context, seconds int, read func() (done bool, err error)) error {
	if seconds > 0 {
		who := access.Of(ctx)
		if err := h.begin(who); err != nil {
			return err
		}
		defer h.end(who)
	}
	held, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	for {
		changed := h.store.Changed()
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
