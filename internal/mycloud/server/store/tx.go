package store

import (
	"fmt"
	"io"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/clock"
)

// database runs transactions on a file.
type database struct {
	db    *bolt.DB
	clock clock.PassiveClock
}

// Tx is a transaction: a snapshot to read from and, in Update, to write to.
type Tx struct {
	bolt *bolt.Tx
	// Now is the transaction's time, to the millisecond.
	Now time.Time
	// Rehearsal is true if the writes of the transaction are discarded.
	Rehearsal bool
	dirty     bool
	// recorded has the writes of a transaction on a copy; nil on the state itself.
	recorded map[place]*Write
}

// View implements Store.
func (d *database) View(fn func(*Tx) error) error {
	return d.db.View(func(b *bolt.Tx) error { return fn(d.tx(b)) })
}

// Rehearse implements Store.
func (d *database) Rehearse(fn func(*Tx) error) error {
	b, err := d.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = b.Rollback() }()
	tx := d.tx(b)
	tx.Rehearsal = true
	return fn(tx)
}

// Backup implements Store.
func (d *database) Backup(w io.Writer) error {
	return d.db.View(func(b *bolt.Tx) error {
		if _, err := b.WriteTo(w); err != nil {
			return fmt.Errorf("back up the state: %w", err)
		}
		return nil
	})
}

// Close waits for transactions and closes the file.
func (d *database) Close() error { return d.db.Close() }

func (d *database) tx(b *bolt.Tx) *Tx {
	return &Tx{bolt: b, Now: d.clock.Now().UTC().Truncate(time.Millisecond)}
}

// Writable reports whether the transaction may write, and so may see what is not committed yet.
func (tx *Tx) Writable() bool { return tx.bolt.Writable() }

// bucket is a bucket to write to.
type bucket struct {
	*bolt.Bucket

	tx   *Tx
	name string
}

// bucket returns a bucket to write to, which it creates if it does not exist.
func (tx *Tx) bucket(name string) (*bucket, error) {
	tx.dirty = true
	b, err := tx.bolt.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return &bucket{b, tx, name}, nil
}

// deleteBucket deletes a bucket if it exists.
func (tx *Tx) deleteBucket(name string) error {
	if tx.bolt.Bucket([]byte(name)) == nil {
		return nil
	}
	b, err := tx.bucket(name)
	if err != nil {
		return err
	}
	if tx.recorded != nil {
		if err := b.ForEach(func(k, _ []byte) error { b.record(string(k), nil); return nil }); err != nil {
			return err
		}
		b.record("", nil)
	}
	return tx.bolt.DeleteBucket([]byte(name))
}

// Put writes a key.
func (b *bucket) Put(key, value []byte) error {
	if b.tx.recorded != nil {
		// An empty value is one, too.
		b.record(string(key), append([]byte{}, value...))
	}
	return b.Bucket.Put(key, value)
}

// Delete removes a key.
func (b *bucket) Delete(key []byte) error {
	if b.tx.recorded != nil {
		b.record(string(key), nil)
	}
	return b.Bucket.Delete(key)
}

// SetSequence writes the number of the bucket.
func (b *bucket) SetSequence(n uint64) error {
	if b.tx.recorded != nil {
		b.record("", strconv.AppendUint(nil, n, 10))
	}
	return b.Bucket.SetSequence(n)
}

// NextSequence increments the number of the bucket.
func (b *bucket) NextSequence() (uint64, error) {
	n := b.Sequence() + 1
	return n, b.SetSequence(n)
}

// record records a write before it is made.
func (b *bucket) record(key string, value []byte) {
	at := place{b.name, key}
	w := b.tx.recorded[at]
	if w == nil {
		w = &Write{Bucket: b.name, Key: key, Was: -1}
		if old := b.Get([]byte(key)); key != "" && old != nil {
			w.Was = len(old)
		}
		b.tx.recorded[at] = w
	}
	w.Value = value
}
