package etcd

import (
	"context"
	"fmt"
	"sync"

	"quaymaster.dev/internal/mycloud/server/store"
)

// rounds are reads of the head that callers share: those that arrive while one goes on share the next one.
type rounds struct {
	mu      sync.Mutex
	next    *round
	reading bool
}

// round is one read of the head.
type round struct {
	done     chan struct{}
	revision int64
	err      error
}

// Current implements store.Store. A majority of etcd confirms the head, which the copy then has to reach.
func (s *Store) Current(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, currentLimit)
	defer cancel()
	r := s.join()
	select {
	case <-r.done:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	if r.err != nil {
		return r.err
	}
	return s.reach(ctx, r.revision)
}

// join returns a round that begins after the call.
func (s *Store) join() *round {
	s.rounds.mu.Lock()
	defer s.rounds.mu.Unlock()
	if s.rounds.next == nil {
		s.rounds.next = &round{done: make(chan struct{})}
	}
	if !s.rounds.reading {
		s.rounds.reading = true
		s.background.Go(s.readRounds)
	}
	return s.rounds.next
}

// readRounds reads as long as callers wait.
func (s *Store) readRounds() {
	for {
		s.rounds.mu.Lock()
		r := s.rounds.next
		s.rounds.next = nil
		s.rounds.reading = r != nil
		s.rounds.mu.Unlock()
		if r == nil {
			return
		}
		r.revision, r.err = s.confirm()
		close(r.done)
	}
}

// confirm returns the revision of etcd at which the head was written.
func (s *Store) confirm() (int64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, currentLimit)
	defer cancel()
	c, release := s.hold()
	defer release()
	was := s.positionOf(c)
	found, err := s.findHead(ctx)
	if err == nil && found.revision <= was.revision && found.value != was.value {
		s.ask(s.lost)
		err = fmt.Errorf("%w: etcd was restored to an earlier state; reading it again", store.ErrUnavailable)
	}
	return found.revision, err
}
