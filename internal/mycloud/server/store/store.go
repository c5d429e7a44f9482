// Package store keeps the reference cloud's objects. Every transaction is one atomic commit, which is durable before the
// write returns.
package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"k8s.io/utils/clock"
)

const (
	// lockWait is how long Open waits for another server to release the file.
	lockWait = time.Second

	revisionsBucket = "revisions"
)

var (
	// ErrInUse is returned if another server has the state open.
	ErrInUse = errors.New("it is in use by another server; stop that server or choose a different directory")
	// ErrUnavailable is returned if the state cannot be reached. It is unknown whether an update was committed.
	ErrUnavailable = errors.New("the state cannot be reached")
)

// Store is the state of a cloud.
type Store interface {
	// View reads from a snapshot. It has all that was committed when Current was last called.
	View(fn func(*Tx) error) error
	// Update runs fn and commits its writes in one strictly serializable transaction, unless fn returns an error. If fn wrote
	// nothing, Changed does not fire. fn runs again if another server commits first, so it must not have other effects than
	// to overwrite what its caller reads after Update.
	Update(fn func(*Tx) error) error
	// Rehearse runs fn like Update and discards its writes. Written objects have no revision because a later change will get
	// that one.
	Rehearse(fn func(*Tx) error) error
	// Changed returns a channel that the next commit closes. To wait for a condition, get the channel before checking it.
	Changed() <-chan struct{}
	// Current waits until View sees everything that was committed before the call, by any server.
	Current(ctx context.Context) error
	// Lead runs fn whenever this server is the leader of those that share the state, until ctx is done. The context of fn is
	// done when another server may lead, and updates of its store fail from then on.
	Lead(ctx context.Context, fn func(context.Context, Store))
	// Tell sends a message to the other servers. The last one about a subject of a topic is kept, but is not part of the state;
	// nil deletes it.
	Tell(ctx context.Context, topic, subject string, message []byte) error
	// Listen calls fn with the messages of topics that are kept, and then live with those that others send, until ctx is done.
	Listen(ctx context.Context, topics []string, fn func(topic, subject string, message []byte, live bool))
	// Backup writes a snapshot of the state, which Open opens.
	Backup(w io.Writer) error
	// Close ends the use of the state.
	Close() error
}

// File is a state in a file of one server.
type File struct {
	database

	mu      sync.Mutex
	changed chan struct{}
}

var _ Store = (*File)(nil)

// Open opens the state in a file, which it creates if it does not exist.
func Open(path string, c clock.PassiveClock) (*File, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open state %s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	s := &File{database: database{db: db, clock: c}, changed: make(chan struct{})}
	if err := s.Update(Begin); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	return s, nil
}

// Begin prepares a state for a server that starts.
func Begin(tx *Tx) error {
	return errors.Join(beginLog(tx), indexAll(tx), beginHistory(tx), beginIdentity(tx), moveAddresses(tx))
}

// Update implements Store: one update at a time runs, and is synced.
func (s *File) Update(fn func(*Tx) error) error {
	b, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// This is for errors and panics: after a commit it does nothing.
	defer func() { _ = b.Rollback() }()
	tx := s.tx(b)
	if err := fn(tx); err != nil {
		return err
	}
	if !tx.dirty {
		return nil
	}
	if err := b.Commit(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Changed implements Store.
func (s *File) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Current implements Store: no other server commits.
func (*File) Current(context.Context) error { return nil }

// Lead implements Store: there is no other server.
func (s *File) Lead(ctx context.Context, fn func(context.Context, Store)) { fn(ctx, s) }

// Tell implements Store: there is no other server.
func (*File) Tell(context.Context, string, string, []byte) error { return nil }

// Listen implements Store.
func (*File) Listen(ctx context.Context, _ []string, _ func(string, string, []byte, bool)) {
	<-ctx.Done()
}

// nextRevision returns the next revision of the cloud and stores it as that of the collection's last change. In a rehearsal it
// returns an empty string.
func (tx *Tx) nextRevision(collection string) (string, error) {
	if tx.Rehearsal {
		return "", nil
	}
	b, err := tx.bucket(revisionsBucket)
	if err != nil {
		return "", err
	}
	n, err := b.NextSequence()
	if err != nil {
		return "", fmt.Errorf("next revision: %w", err)
	}
	if err := b.Put([]byte(collection), binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return "", fmt.Errorf("next revision: %w", err)
	}
	return strconv.FormatUint(n, 10), nil
}

// lastChange returns the revision of the last change of a collection.
func (tx *Tx) lastChange(collection string) uint64 {
	if b := tx.bolt.Bucket([]byte(revisionsBucket)); b != nil {
		if v := b.Get([]byte(collection)); len(v) == 8 {
			return binary.BigEndian.Uint64(v)
		}
	}
	return 0
}
