package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"k8s.io/utils/clock"
)

// Write is a change of one key of a state.
type Write struct {
	// Bucket and Key are where it is. An empty key is the number of the bucket, whose value is decimal.
	Bucket, Key string
	// Value is the new value; nil deletes the key.
	Value []byte
	// Was is the length of the former value, -1 if there was none.
	Was int
}

// place is where a write is.
type place struct{ bucket, key string }

// Copy is a copy of a state that several servers share. It lasts as long as the process.
type Copy struct{ database }

// NewCopy returns an empty copy, whose file is in a directory but has no name there.
func NewCopy(dir string, c clock.PassiveClock) (*Copy, error) {
	f, err := os.CreateTemp(dir, "copy-*.db")
	if err != nil {
		return nil, fmt.Errorf("create copy of the state: %w", err)
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	// It is not needed after a crash.
	db, err := bolt.Open(f.Name(), 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("create copy of the state: %w", err)
	}
	return &Copy{database{db: db, clock: c}}, nil
}

// Try runs fn like Update, and returns its writes in the order of their places instead of committing them.
func (c *Copy) Try(fn func(*Tx) error) ([]Write, error) {
	b, err := c.db.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = b.Rollback() }()
	tx := c.tx(b)
	tx.recorded = map[place]*Write{}
	if err := fn(tx); err != nil {
		return nil, err
	}
	writes := make([]Write, 0, len(tx.recorded))
	for _, w := range tx.recorded {
		// What has come and gone within the transaction was never there.
		if w.Value != nil || w.Was >= 0 || w.Key == "" {
			writes = append(writes, *w)
		}
	}
	slices.SortFunc(writes, func(a, b Write) int { return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Key, b.Key)) })
	return writes, nil
}

// Apply commits writes.
func (c *Copy) Apply(writes []Write) error {
	err := c.db.Update(func(b *bolt.Tx) error {
		for _, w := range writes {
			if err := w.apply(b); err != nil {
				return fmt.Errorf("write %q of bucket %s: %w", w.Key, w.Bucket, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("follow the state: %w", err)
	}
	return nil
}

func (w *Write) apply(tx *bolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists([]byte(w.Bucket))
	switch {
	case err != nil:
		return err
	case w.Key == "":
		// Without a value, it is 0.
		n, _ := strconv.ParseUint(string(w.Value), 10, 64)
		return b.SetSequence(n)
	case w.Value == nil:
		return b.Delete([]byte(w.Key))
	}
	return b.Put([]byte(w.Key), w.Value)
}

// Writes calls add for everything that a state consists of.
func (d *database) Writes(add func(Write) error) error {
	return d.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if n := b.Sequence(); n > 0 {
				if err := add(Write{Bucket: string(name), Value: strconv.AppendUint(nil, n, 10), Was: -1}); err != nil {
					return err
				}
			}
			return b.ForEach(func(k, v []byte) error {
				return add(Write{Bucket: string(name), Key: string(k), Value: append([]byte{}, v...), Was: -1})
			})
		})
	})
}

// OpenBackup opens a backup, or the file of a server that is stopped, to read it.
func OpenBackup(path string) (*Copy, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: %w", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		if tx.Bucket([]byte(identityBucket)) == nil {
			return errors.New("it has no state of a cloud")
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	return &Copy{database{db: db, clock: clock.RealClock{}}}, nil
}
