// Package etcd keeps the state of a cloud in etcd, where several servers share it.
//
// Every server follows the state into a copy of its own, on which transactions run. One is committed by a transaction of
// etcd that compares the head of the state, which changes with every commit, with that of the copy; so all transactions of
// all servers are strictly serializable. A commit that exceeds the limits of etcd is staged first: what makes it visible is
// still one transaction, which changes the head, and the server that commits next first moves it to its place.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// openLimit is how long Open waits for etcd, besides the time to read the state.
	openLimit = 10 * time.Second
	// updateLimit and currentLimit are how long Update and Current wait for etcd.
	updateLimit, currentLimit = 8 * time.Second, 5 * time.Second
	// attemptLimit is how long one request may take before another member is asked.
	attemptLimit = 1500 * time.Millisecond
	// retryPause is how long to wait after a request that failed.
	retryPause = 50 * time.Millisecond
)

// Options configures a Store.
type Options struct {
	// Config is where etcd is, and how it knows this server.
	Config clientv3.Config
	// Prefix begins the keys of the state. It ends with a slash.
	Prefix string
	// Dir is the directory of the copy.
	Dir   string
	Clock clock.PassiveClock
	// Logger logs why the state could not be followed.
	Logger *slog.Logger
}

// Store is a state in etcd.
type Store struct {
	options Options
	client  *clientv3.Client
	// name begins the ids of this server's commits.
	name    string
	commits int
	// updating is held by the update that runs.
	updating chan struct{}
	rounds   rounds

	// ctx ends what goes on in the background, and background waits for it.
	ctx        context.Context //nolint:containedctx // the life of the store, not of a call
	stop       context.CancelFunc
	background sync.WaitGroup
	// again asks the follower for another watch, and lost for another copy.
	again, lost chan struct{}

	mu sync.Mutex
	// copy is replaced if the state cannot be followed any more.
	copy *followed
	// changed is closed when the copy changes.
	changed chan struct{}
}

var _ store.Store = (*Store)(nil)

// followed is a copy and what it has.
type followed struct {
	*store.Copy

	users sync.WaitGroup
	// begun is true if this server has begun a history on the copy. It belongs to the update that runs.
	begun bool

	// What follows is guarded by the lock of the store.
	at position
	// own is the last commit of this server in the copy.
	own string
}

// position is a position in the history of a state.
type position struct {
	head head
	// value is the encoded head; empty if there is no state.
	value string
	// revision is that of etcd up to which the copy has all changes.
	revision int64
}

// Open reads the state and follows it. Without one, it begins one.
func Open(o Options) (*Store, error) {
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	s.background.Go(s.follow)
	// The first update begins a history.
	if err := s.Update(func(*store.Tx) error { return nil }); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open state in etcd: %w", err)
	}
	return s, nil
}

// open reads the state.
func open(o Options) (*Store, error) {
	client, err := newClient(o.Config)
	if err != nil {
		return nil, err
	}
	s := &Store{
		options: o, client: client, name: newID(), updating: make(chan struct{}, 1),
		again: make(chan struct{}, 1), lost: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(s.ctx, openLimit)
	defer cancel()
	// The state may take longer to read than etcd has to answer.
	if _, err := s.readHead(ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open state in etcd %v: %w; check that its members run, and the files and the user for it", o.Config.Endpoints, err)
	}
	if s.copy, err = s.load(s.ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open state in etcd %v: %w", o.Config.Endpoints, err)
	}
	return s, nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.stop()
	s.background.Wait()
	var err error
	if s.copy != nil {
		s.copy.users.Wait()
		err = s.copy.Close()
	}
	return errors.Join(err, s.client.Close())
}

// hold returns the copy, which is not closed before release is called.
func (s *Store) hold() (c *followed, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copy.users.Add(1)
	return s.copy, s.copy.users.Done
}

// View implements store.Store.
func (s *Store) View(fn func(*store.Tx) error) error {
	c, release := s.hold()
	defer release()
	return c.View(fn)
}

// Rehearse implements store.Store.
func (s *Store) Rehearse(fn func(*store.Tx) error) error {
	c, release := s.hold()
	defer release()
	return c.Rehearse(fn)
}

// Backup implements store.Store.
func (s *Store) Backup(w io.Writer) error {
	c, release := s.hold()
	defer release()
	return c.Backup(w)
}

// Changed implements store.Store.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Update implements store.Store.
func (s *Store) Update(fn func(*store.Tx) error) error { return s.update(fn) }

// update is Update under conditions of etcd; if they do not hold, it fails.
func (s *Store) update(fn func(*store.Tx) error, conditions ...clientv3.Cmp) error {
	ctx, cancel := context.WithTimeout(s.ctx, updateLimit)
	defer cancel()
	select {
	case s.updating <- struct{}{}:
		defer func() { <-s.updating }()
	case <-ctx.Done():
		return fmt.Errorf("%w: updates before it have not ended", store.ErrUnavailable)
	}
	for {
		done, err := s.attempt(ctx, fn, conditions)
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: other servers have committed first", store.ErrUnavailable)
		}
	}
}

// attempt runs fn and commits its writes. It returns false if another server has committed first.
func (s *Store) attempt(ctx context.Context, fn func(*store.Tx) error, conditions []clientv3.Cmp) (done bool, err error) {
	c, release := s.hold()
	defer release()
	if at := s.positionOf(c); at.head.Staged > 0 {
		// Its batches are in the copy already, but not all in their places.
		return false, s.settle(ctx, at)
	}
	var at position
	writes, err := c.Try(func(tx *store.Tx) error {
		// The copy cannot change until the transaction ends, so that it has at least this position.
		at = s.positionOf(c)
		if !c.begun {
			if err := store.Begin(tx); err != nil {
				return err
			}
		}
		return fn(tx)
	})
	if err != nil || len(writes) == 0 {
		return true, err
	}
	done, err = s.commit(ctx, c, at, writes, conditions)
	c.begun = c.begun || done
	return done, err
}

func (s *Store) positionOf(c *followed) position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.at
}
