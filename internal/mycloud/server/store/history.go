package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// historiesBucket has a random name for each start of a server that was followed by a change, by the last revision
// before the start.
//
// A state that is restored from a backup counts on from the revision of the backup, and so uses numbers for a second
// time. With the name of its history, a revision is that of one state only: clients that have followed the lost state
// learn that their revision is unknown, and list everything again.
const historiesBucket = "histories"

// beginHistory begins a history. One that has no changes is replaced, because a copy of the state may have continued it.
func beginHistory(tx *Tx) error {
	histories, err := tx.bucket(historiesBucket)
	if err != nil {
		return fmt.Errorf("begin a history: %w", err)
	}
	var name [4]byte
	_, _ = rand.Read(name[:]) // never fails
	if err := histories.Put(revisionKey(tx.revision()), name[:]); err != nil {
		return fmt.Errorf("begin a history: %w", err)
	}
	return nil
}

// identityBucket has the id of the cloud.
const identityBucket = "identity"

var identityKey = []byte("id")

// beginIdentity gives a new cloud a random id. A state that is restored from a backup keeps its id: it is the same cloud.
func beginIdentity(tx *Tx) error {
	identity, err := tx.bucket(identityBucket)
	if err != nil {
		return fmt.Errorf("name the cloud: %w", err)
	}
	if identity.Get(identityKey) != nil {
		return nil
	}
	if err := identity.Put(identityKey, []byte("cloud-"+strings.ToLower(rand.Text()))); err != nil {
		return fmt.Errorf("name the cloud: %w", err)
	}
	return nil
}

// CloudID returns the id of the cloud.
func (tx *Tx) CloudID() string {
	return string(tx.bolt.Bucket([]byte(identityBucket)).Get(identityKey))
}

// Revision returns the revision of the cloud, which is that of its last change: its number and the name of its history.
func (tx *Tx) Revision() string { return tx.named(tx.revision()) }

// RevisionAt returns the revision of the cloud right after the change of an object to a revision.
func (tx *Tx) RevisionAt(object string) (string, error) {
	n, err := strconv.ParseUint(object, 10, 64)
	if err != nil {
		return "", fmt.Errorf("revision %q: %w", object, err)
	}
	return tx.named(n), nil
}

// named returns a revision with the name of the history to which it belongs. The beginning of the cloud, 0, and what is
// older than histories have none.
func (tx *Tx) named(n uint64) string {
	number := strconv.FormatUint(n, 10)
	b := tx.bolt.Bucket([]byte(historiesBucket))
	if b == nil || n == 0 {
		return number
	}
	c := b.Cursor()
	before := c.Prev
	if at, _ := c.Seek(revisionKey(n)); at == nil {
		before = c.Last
	}
	_, name := before()
	if name == nil {
		return number
	}
	return number + "." + hex.EncodeToString(name)
}

// Number returns the number of a revision of the cloud, and false if this state never had it. The revision of an object
// serves as well, but has no history, so that it may be that of a lost state.
func (tx *Tx) Number(revision string) (uint64, bool) {
	number, _, named := strings.Cut(revision, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, err == nil && n <= tx.revision() && (!named || tx.named(n) == revision)
}
