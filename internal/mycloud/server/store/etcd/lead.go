package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"quaymaster.dev/internal/mycloud/server/store"
)

// leaseSeconds is how long a leader that is not heard of stays the leader.
const leaseSeconds = 3

// leader is the store of a leader, whose updates fail when it no longer leads.
type leader struct {
	*Store

	term clientv3.Cmp
}

// Update implements store.Store.
func (l *leader) Update(fn func(*store.Tx) error) error { return l.update(fn, l.term) }

// Lead implements store.Store.
func (s *Store) Lead(ctx context.Context, fn func(context.Context, store.Store)) {
	for ctx.Err() == nil {
		if err := s.lead(ctx, fn); err != nil && ctx.Err() == nil {
			s.options.Logger.WarnContext(ctx, "Could not lead", "error", err)
			s.pause(reloadPause)
		}
	}
}

// lead waits until this server leads, and runs fn for as long.
func (s *Store) lead(ctx context.Context, fn func(context.Context, store.Store)) error {
	lease, err := s.client.Grant(ctx, leaseSeconds)
	if err != nil {
		return fmt.Errorf("begin a session with etcd: %w", err)
	}
	// It outlives ctx, so that Close can end the lease for the next leader.
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(leaseSeconds), concurrency.WithContext(s.ctx))
	if err != nil {
		return fmt.Errorf("begin a session with etcd: %w", err)
	}
	defer func() { _ = session.Close() }()
	term, cancel := context.WithCancel(ctx)
	defer cancel()
	s.background.Go(func() {
		select {
		case <-session.Done():
			cancel()
		case <-term.Done():
		}
	})
	e := concurrency.NewElection(session, s.options.Prefix+termKeys)
	if err := e.Campaign(term, s.name); err != nil {
		return fmt.Errorf("wait for the lead: %w", err)
	}
	s.options.Logger.InfoContext(ctx, "Leading")
	fn(term, &leader{Store: s, term: clientv3.Compare(clientv3.CreateRevision(e.Key()), "=", e.Rev())})
	return nil
}
