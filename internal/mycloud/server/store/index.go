package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Index is a durable map of strings, sorted by key.
type Index string

// The indexes.
const (
	// LoadBalancerNames maps a name to the load balancer that has it.
	LoadBalancerNames Index = "load-balancer-names"
	// AddressPools maps an address pool to its place among the pools.
	AddressPools Index = "address-pools"
	// AddressCursors maps an address pool to the address allocated last.
	AddressCursors Index = "address-cursors"
	// OpenJobTargets has a key for each open job: its target and its place in the queue; the value is its id.
	OpenJobTargets Index = "open-job-targets"
	// Fences maps a cluster to the highest epoch of a leader that the cloud has seen.
	Fences Index = "fences"
	// EdgeTokens maps the hash of an edge's own token to the edge.
	EdgeTokens Index = "edge-tokens"
	// TokenHashes maps a token to the hash of its secret.
	TokenHashes Index = "token-hashes"
	// TokenUses maps a token to the time of its last use.
	TokenUses Index = "token-uses"
	// KeyPairs maps a certificate to its encrypted chain and key.
	KeyPairs Index = "key-pairs"
	// Seeded has the objects that were ever added from an inventory.
	Seeded Index = "seeded"
)

// Get returns the value of a key, or an empty string.
func (i Index) Get(tx *Tx, key string) string {
	b := tx.bolt.Bucket([]byte(i))
	if b == nil {
		return ""
	}
	return string(b.Get([]byte(key)))
}

// Set writes a key.
func (i Index) Set(tx *Tx, key, value string) error {
	b, err := tx.bucket(string(i))
	if err != nil {
		return err
	}
	if err := b.Put([]byte(key), []byte(value)); err != nil {
		return fmt.Errorf("write index %s: %w", i, err)
	}
	return nil
}

// Delete removes a key. It is not an error if there is none.
func (i Index) Delete(tx *Tx, key string) error {
	b, err := tx.bucket(string(i))
	if err != nil {
		return err
	}
	if err := b.Delete([]byte(key)); err != nil {
		return fmt.Errorf("write index %s: %w", i, err)
	}
	return nil
}

// Pair is an entry of an index.
type Pair struct{ Key, Value string }

// All returns the entries in the order of their keys.
func (i Index) All(tx *Tx) ([]Pair, error) {
	b := tx.bolt.Bucket([]byte(i))
	if b == nil {
		return nil, nil
	}
	var all []Pair
	err := b.ForEach(func(k, v []byte) error {
		all = append(all, Pair{string(k), string(v)})
		return nil
	})
	return all, err
}

// Prefixed returns the entries whose keys begin with prefix, in the order of their keys.
func (i Index) Prefixed(tx *Tx, prefix string) []Pair {
	b := tx.bolt.Bucket([]byte(i))
	if b == nil {
		return nil
	}
	var found []Pair
	c := b.Cursor()
	for k, v := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
		found = append(found, Pair{string(k), string(v)})
	}
	return found
}

const answersBucket = "answers"

// Answer is the stored response to a request with an idempotency key.
type Answer struct {
	// Fingerprint identifies the request.
	Fingerprint string          `json:"fingerprint"`
	At          time.Time       `json:"at"`
	Content     json.RawMessage `json:"content"`
}

// Answer returns the response stored for a key, and false if there is none.
func (tx *Tx) Answer(key string) (Answer, bool, error) {
	var a Answer
	b := tx.bolt.Bucket([]byte(answersBucket))
	if b == nil {
		return a, false, nil
	}
	raw := b.Get([]byte(key))
	if raw == nil {
		return a, false, nil
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, false, fmt.Errorf("decode the response of an idempotency key: %w", err)
	}
	return a, true, nil
}

// KeepAnswer stores the response for a key.
func (tx *Tx) KeepAnswer(key string, a Answer) error {
	a.At = tx.Now
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the response of an idempotency key: %w", err)
	}
	b, err := tx.bucket(answersBucket)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), raw)
}

// DropAnswers deletes the responses stored before a time.
func (tx *Tx) DropAnswers(before time.Time) error {
	stored := tx.bolt.Bucket([]byte(answersBucket))
	if stored == nil {
		return nil
	}
	var old [][]byte
	err := stored.ForEach(func(k, raw []byte) error {
		var a Answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("decode the response of an idempotency key: %w", err)
		}
		if a.At.Before(before) {
			old = append(old, k)
		}
		return nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	b, err := tx.bucket(answersBucket)
	if err != nil {
		return err
	}
	for _, k := range old {
		if err := b.Delete(k); err != nil {
			return fmt.Errorf("delete expired responses: %w", err)
		}
	}
	return nil
}
