package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
)

const (
	// changesBucket has the last change of each object by revision. Its sequence is the highest revision of a deletion
	// that was dropped.
	changesBucket = "changes"
	// deletionsBucket has the times of the deletions in the log by revision. Its sequence is their number.
	deletionsBucket = "deletions"

	// MaxDeletions limits the deletions in the log. The other changes are limited by the number of objects.
	MaxDeletions = 20_000
)

// ErrUnknownRevision is returned for a revision after which not all changes are known: it is too old, or the cloud never
// had it.
var ErrUnknownRevision = errors.New("unknown revision")

// Change is the last change of an object.
type Change struct {
	Revision string `json:"-"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Deleted  bool   `json:"deleted,omitempty"`
	// Tags are the last tags of a deleted object.
	Tags map[string]string `json:"tags,omitempty"`
	// Retagged is the revision at which an existing object last got other tags; 0 if it never did.
	Retagged uint64 `json:"retagged,omitempty"`
}

func (tx *Tx) revision() uint64 {
	if b := tx.bolt.Bucket([]byte(revisionsBucket)); b != nil {
		return b.Sequence()
	}
	return 0
}

// Changes returns the changes after a revision in their order, of several changes of an object only the last one. The
// error is ErrUnknownRevision if not all of them are known.
func (tx *Tx) Changes(since string) (iter.Seq2[Change, error], error) {
	after, ok := tx.Number(since)
	if !ok {
		return nil, ErrUnknownRevision
	}
	b := tx.bolt.Bucket([]byte(changesBucket))
	if b == nil {
		return func(func(Change, error) bool) {}, nil
	}
	if after < b.Sequence() {
		return nil, ErrUnknownRevision
	}
	return func(yield func(Change, error) bool) {
		c := b.Cursor()
		for k, raw := c.Seek(revisionKey(after + 1)); k != nil; k, raw = c.Next() {
			change, err := decodeChange(k, raw)
			if !yield(change, err) || err != nil {
				return
			}
		}
	}, nil
}

// record adds a change to the log. It replaces the object's last change, whose revision is was.
func (tx *Tx) record(c Change, was string) error {
	b, err := tx.bucket(changesBucket)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(was, 10, 64); err == nil {
		if err := b.Delete(revisionKey(n)); err != nil {
			return fmt.Errorf("replace change %s: %w", was, err)
		}
	}
	n, err := strconv.ParseUint(c.Revision, 10, 64)
	if err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	if err := b.Put(revisionKey(n), raw); err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	if !c.Deleted {
		return nil
	}
	return tx.recordDeletion(n)
}

// retagged returns the revision at which an object whose revision is was last got other tags.
func (tx *Tx) retagged(was string) (uint64, error) {
	n, err := strconv.ParseUint(was, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision %q: %w", was, err)
	}
	b := tx.bolt.Bucket([]byte(changesBucket))
	if b == nil {
		return 0, nil
	}
	raw := b.Get(revisionKey(n))
	if raw == nil {
		// The object is older than the log.
		return 0, nil
	}
	c, err := decodeChange(revisionKey(n), raw)
	return c.Retagged, err
}

func (tx *Tx) recordDeletion(revision uint64) error {
	b, err := tx.bucket(deletionsBucket)
	if err != nil {
		return err
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(tx.Now.UnixMilli()))
	if err := b.Put(revisionKey(revision), at); err != nil {
		return fmt.Errorf("record deletion: %w", err)
	}
	if err := b.SetSequence(b.Sequence() + 1); err != nil {
		return fmt.Errorf("record deletion: %w", err)
	}
	return tx.dropDeletions(func(n uint64, _ []byte) bool { return n > MaxDeletions })
}

// DropDeletions removes the deletions before a time from the log of changes.
func (tx *Tx) DropDeletions(before time.Time) error {
	ms := uint64(before.UnixMilli())
	return tx.dropDeletions(func(_ uint64, at []byte) bool { return binary.BigEndian.Uint64(at) < ms })
}

// dropDeletions removes the first deletion from the log as long as drop returns true for the number of deletions and
// the time of the first.
func (tx *Tx) dropDeletions(drop func(n uint64, at []byte) bool) error {
	if tx.bolt.Bucket([]byte(deletionsBucket)) == nil {
		return nil
	}
	was := tx.dirty
	deletions, err := tx.bucket(deletionsBucket)
	if err != nil {
		return err
	}
	changes, err := tx.bucket(changesBucket)
	if err != nil {
		return err
	}
	tx.dirty = was
	for {
		k, at := deletions.Cursor().First()
		if k == nil || !drop(deletions.Sequence(), at) {
			return nil
		}
		tx.dirty = true
		for _, err := range []error{
			changes.Delete(k), changes.SetSequence(binary.BigEndian.Uint64(k)),
			deletions.SetSequence(deletions.Sequence() - 1), deletions.Delete(k),
		} {
			if err != nil {
				return fmt.Errorf("drop deletion: %w", err)
			}
		}
	}
}

// beginLog begins the log of changes in a state that was written without one.
func beginLog(tx *Tx) error {
	revision := tx.revision()
	if revision == 0 || tx.bolt.Bucket([]byte(changesBucket)) != nil {
		return nil
	}
	changes, err := tx.bucket(changesBucket)
	if err != nil {
		return fmt.Errorf("begin the log of changes: %w", err)
	}
	return changes.SetSequence(revision)
}

func decodeChange(key, raw []byte) (Change, error) {
	c := Change{Revision: strconv.FormatUint(binary.BigEndian.Uint64(key), 10)}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("decode change %s: %w", c.Revision, err)
	}
	return c, nil
}

func revisionKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
