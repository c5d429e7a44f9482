package access

import (
	"context"
	"maps"
	"sync"
	"time"

	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// useAge is how old the stored time of the last use may be, and useInterval how often a server stores such times: however
	// many requests there are, each token is written once an hour.
	useAge, useInterval = time.Hour, time.Minute
)

// uses are the times of the last use of tokens on this server.
type uses struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (u *uses) note(token string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = map[string]time.Time{}
	}
	u.last[token] = at
}

// take returns the times since the last call.
func (u *uses) take() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.last
	u.last = nil
	return taken
}

// giveBack adds times that could not be stored.
func (u *uses) giveBack(taken map[string]time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(taken, u.last)
	u.last = taken
}

// RecordUses stores when tokens were last used, until ctx is done.
func (t *Tokens) RecordUses(ctx context.Context) {
	for {
		timer := t.Clock.NewTimer(useInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		taken := t.uses.take()
		if err := t.storeUses(taken); err != nil {
			t.uses.giveBack(taken)
			t.Logger.WarnContext(ctx, "Could not store when tokens were last used", "error", err)
		}
	}
}

// storeUses stores the times of tokens whose stored time is old.
func (t *Tokens) storeUses(taken map[string]time.Time) error {
	if len(taken) == 0 {
		return nil
	}
	stale := func(tx *store.Tx, id string, at time.Time) bool {
		was := LastUse(tx, id)
		return store.Tokens.Has(tx, id) && (was == nil || at.Sub(*was) >= useAge)
	}
	due := false
	err := t.Store.View(func(tx *store.Tx) error {
		for id, at := range taken {
			due = due || stale(tx, id, at)
		}
		return nil
	})
	if err != nil || !due {
		return err
	}
	return t.Store.Update(func(tx *store.Tx) error {
		for id, at := range taken {
			if !stale(tx, id, at) {
				continue
			}
			if err := store.TokenUses.Set(tx, id, at.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
		return nil
	})
}

// LastUse returns the stored time of the last use of a token; nil if there is none.
func LastUse(tx *store.Tx, id string) *time.Time {
	at, err := time.Parse(time.RFC3339, store.TokenUses.Get(tx, id))
	if err != nil {
		return nil
	}
	return &at
}
