// Package store keeps the reference cloud's objects on disk. A write that returned is on the disk: every transaction is
// one atomic, synced commit.
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
	// lockWait is how long Open waits for another server to let go of the file.
	lockWait = time.Second

	revisionsBucket = "revisions"
)

// ErrInUse says that another server has the state open.
var ErrInUse = errors.New("another server uses it: stop that one, or keep this one's state elsewhere")

// Store is the state of a cloud.
type Store struct {
	db    *bolt.DB
	clock clock.PassiveClock

	mu      sync.Mutex
	changed chan struct{}
}

// Open opens the state in a file, which it creates if it must.
func Open(path string, c clock.PassiveClock) (*Store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open state %s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	return &Store{db: db, clock: c, changed: make(chan struct{})}, nil
}

// Close waits for transactions and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Tx is a transaction: a snapshot to read from and, in Update, to write to.
type Tx struct {
	bolt *bolt.Tx
	// Now is the transaction's time, to the millisecond.
	Now time.Time
	// Rehearsal is true where nothing that is written will stay.
	Rehearsal bool
	dirty     bool
}

// View reads from a snapshot.
func (s *Store) View(fn func(*Tx) error) error {
	return s.db.View(func(b *bolt.Tx) error { return fn(s.tx(b)) })
}

// Update runs fn, one at a time, and commits what it wrote unless it returns an error. Where fn wrote nothing, nothing
// is synced and nobody is told.
func (s *Store) Update(fn func(*Tx) error) error {
	b, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// A commit leaves nothing to roll back; this is for errors and panics.
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

// Rehearse runs fn as Update would and undoes what it wrote. What is written bears no revision: that would be one which
// a later change is going to have.
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

// Changed gives a channel that the next commit closes. Who waits for something takes the channel before he looks.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) tx(b *bolt.Tx) *Tx {
	return &Tx{bolt: b, Now: s.clock.Now().UTC().Truncate(time.Millisecond)}
}

// nextRevision counts every change of the cloud and remembers it as the collection's. A rehearsal has none to give.
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

func (tx *Tx) collectionRevision(collection string) string {
	var n uint64
	if b := tx.bolt.Bucket([]byte(revisionsBucket)); b != nil {
		if v := b.Get([]byte(collection)); len(v) == 8 {
			n = binary.BigEndian.Uint64(v)
		}
	}
	return strconv.FormatUint(n, 10)
}

// bucket gives a bucket to write to.
func (tx *Tx) bucket(name string) (*bolt.Bucket, error) {
	tx.dirty = true
	b, err := tx.bolt.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return b, nil
}
