package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server/store"
)

// errNotLeader is returned for an update of a server that no longer leads.
var errNotLeader = errors.New("another server may lead")

func newID() string { return rand.Text()[:12] }

// commit commits writes that were made on a copy at a position. It returns false if the state has another head.
func (s *Store) commit(
	ctx context.Context, c *followed, at position, writes []store.Write, conditions []clientv3.Cmp,
) (bool, error) {
	s.commits++
	next := head{Commit: at.head.Commit + 1, ID: s.name + "-" + strconv.Itoa(s.commits), After: at.head.ID}
	batches := batchesOf(writes)
	if len(batches) <= 1 {
		return s.advance(ctx, c, at, next, requests(s.options.Prefix, slices.Concat(batches...)), conditions)
	}
	for i, batch := range batches {
		raw, err := json.Marshal(batch)
		if err != nil {
			return false, fmt.Errorf("encode a commit: %w", err)
		}
		key := s.options.Prefix + next.staged(i)
		if err := s.try(ctx, func(ctx context.Context) error {
			_, err := s.client.Put(ctx, key, string(raw))
			return err
		}); err != nil {
			return false, err
		}
	}
	next.Staged = len(batches)
	done, err := s.advance(ctx, c, at, next, nil, conditions)
	if !done || err != nil {
		// What stays behind in stagedKeys is deleted after the next commit that is staged.
		return done, err
	}
	// The commit is visible. If this fails, the next update does it.
	if at = s.positionOf(c); at.head.Staged > 0 {
		_ = s.settle(ctx, at)
	}
	return true, nil
}

// advance changes the head of the state, with operations, if it is still that of a position. It returns when the copy has
// the new head, which may be that of another server.
func (s *Store) advance(
	ctx context.Context, c *followed, at position, next head, operations []clientv3.Op, conditions []clientv3.Cmp,
) (bool, error) {
	key := s.options.Prefix + headKey
	value := next.encode()
	then := append([]clientv3.Op{clientv3.OpPut(key, value)}, operations...)
	var resp *clientv3.TxnResponse
	unsure := false
	// A transaction whose answer was lost may have been committed. It can be sent again, because it compares the head.
	err := s.try(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Txn(ctx).If(append(conditions, s.isHead(at))...).Then(then...).Else(clientv3.OpGet(key)).Commit()
		unsure = unsure || err != nil
		return err
	})
	if err != nil {
		return false, err
	}
	if resp.Succeeded {
		return true, s.reach(ctx, resp.Header.Revision)
	}
	found := positionIn(resp.Responses[0].GetResponseRange().GetKvs())
	switch {
	case found.value == at.value:
		return false, errNotLeader
	case found.revision <= at.revision:
		s.ask(s.lost)
		return false, fmt.Errorf("%w: etcd was restored to an earlier state; reading it again", store.ErrUnavailable)
	}
	if err := s.reach(ctx, found.revision); err != nil {
		return false, err
	}
	if !unsure {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copy != c {
		return false, fmt.Errorf("%w: whether the update was committed is unknown", store.ErrUnavailable)
	}
	return c.own == next.ID, nil
}

// settle moves the staged batches of a commit to their places.
func (s *Store) settle(ctx context.Context, at position) error {
	for i := range at.head.Staged {
		batch, err := s.readBatch(ctx, at.head.staged(i), 0)
		if err != nil {
			return err
		}
		if batch == nil {
			// Another server has done it, so that the head has changed.
			return s.Current(ctx)
		}
		if _, err := s.txn(ctx, at, requests(s.options.Prefix, batch)); err != nil {
			return err
		}
	}
	settled := at.head
	settled.Staged = 0
	staged := s.options.Prefix + stagedKeys
	// No server can commit any more what was staged for this head or an earlier one.
	next := staged + fmt.Sprintf("%016x", at.head.Commit+1)
	revision, err := s.txn(ctx, at, []clientv3.Op{
		clientv3.OpPut(s.options.Prefix+headKey, settled.encode()), clientv3.OpDelete(staged, clientv3.WithRange(next)),
	})
	if err != nil {
		return err
	}
	return s.reach(ctx, revision)
}

// txn runs operations if the head is that of a position, and returns the revision of the head.
func (s *Store) txn(ctx context.Context, at position, operations []clientv3.Op) (int64, error) {
	var revision int64
	err := s.try(ctx, func(ctx context.Context) error {
		resp, err := s.client.Txn(ctx).If(s.isHead(at)).Then(operations...).
			Else(clientv3.OpGet(s.options.Prefix + headKey)).Commit()
		if err != nil {
			return err
		}
		revision = resp.Header.Revision
		if !resp.Succeeded {
			revision = positionIn(resp.Responses[0].GetResponseRange().GetKvs()).revision
		}
		return nil
	})
	return revision, err
}

// isHead is the condition that the head is that of a position.
func (s *Store) isHead(at position) clientv3.Cmp {
	key := s.options.Prefix + headKey
	if at.value == "" {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(key), "=", at.value)
}

// try sends a request again, to whichever member of etcd, until it is answered or ctx is done.
func (s *Store) try(ctx context.Context, request func(context.Context) error) error {
	for {
		err := func() error {
			attempt, cancel := context.WithTimeout(ctx, attemptLimit)
			defer cancel()
			return request(attempt)
		}()
		if err == nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		case <-time.After(retryPause):
		}
	}
}
