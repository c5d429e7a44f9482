// Package store keeps the reference cloud's objects on disk. Every transaction is one atomic commit, which is synced to
// disk before the write returns.
package store

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// ErrInUse is returned if another server has the state open.
var ErrInUse = errors.New("it is in use by another server; stop that server or choose a different directory")

// Store is the state of a cloud.
type Store struct {
	db    *bolt.DB
	clock clock.PassiveClock

	mu      sync.Mutex
	changed chan struct{}
}

// Open opens the state in a file, which it creates if it does not exist.
func Open(path string, c clock.PassiveClock) (*Store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open state %s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	s := &Store{db: db, clock: c, changed: make(chan struct{})}
	upgrade := func(b *bolt.Tx) error {
		return errors.Join(beginLog(b), indexAll(b), beginHistory(b), beginIdentity(b), moveAddresses(s.tx(b)))
	}
	if err := db.Update(upgrade); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	return s, nil
}

// Close waits for transactions and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Tx is a transaction: a snapshot to read from and, in Update, to write to.
type Tx struct {
	bolt *bolt.Tx
	// Now is the transaction's time, to the millisecond.
	Now time.Time
	// Rehearsal is true if the writes of the transaction are discarded.
	Rehearsal bool
	dirty     bool
}

// View reads from a snapshot.
func (s *Store) View(fn func(*Tx) error) error {
	return s.db.View(func(b *bolt.Tx) error { return fn(s.tx(b)) })
}

// Update runs fn, one at a time, and commits its writes unless it returns an error. If fn wrote nothing, nothing is
// synced and Changed does not fire.
func (s *Store) Update(fn func(*Tx) error) error {
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

// Rehearse runs fn like Update and discards its writes. Written objects have no revision because a later change will
// get that one.
func (s *Store) Rehearse(fn func(*Tx) error) error {
	b, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = b.Rollback() }()
	tx := s.tx(b)
	tx.Rehearsal = true
	return fn(tx)
}

// Changed returns a channel that the next commit closes. To wait for a condition, get the channel before checking it.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) tx(b *bolt.Tx) *Tx {
	return &Tx{bolt: b, Now: s.clock.Now().UTC().Truncate(time.Millisecond)}
}

// Writable reports whether the transaction may write, and so may see what is not committed yet.
func (tx *Tx) Writable() bool { return tx.bolt.Writable() }

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

// bucket returns a bucket to write to.
func (tx *Tx) bucket(name string) (*bolt.Bucket, error) {
	tx.dirty = true
	b, err := tx.bolt.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return b, nil
}
