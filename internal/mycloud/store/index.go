package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Index is a durable map of strings, kept in the order of its keys, beside the objects.
type Index string

// The indexes.
const (
	// LoadBalancerNames leads from a name to the load balancer that bears it.
	LoadBalancerNames Index = "load-balancer-names"
	// Addresses leads from an address to the load balancer that has it.
	Addresses Index = "addresses"
	// AddressCursors leads from an address pool to the address given out last.
	AddressCursors Index = "address-cursors"
	// OpenJobs leads from a job's place in the queue to its id.
	OpenJobs Index = "open-jobs"
	// Seeded holds what has ever come from the inventory.
	Seeded Index = "seeded"
)

// Get gives the value of a key, empty if there is none.
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

// Delete removes a key; it is no error if there is none.
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

// All gives the entries in the order of their keys.
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

const answersBucket = "answers"

// Answer is what a request with an idempotency key was answered.
type Answer struct {
	// Fingerprint is that of the request.
	Fingerprint string          `json:"fingerprint"`
	At          time.Time       `json:"at"`
	Content     json.RawMessage `json:"content"`
}

// Answer gives what was answered under a key, and false if nothing was.
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
		return a, false, fmt.Errorf("decode the answer kept under an idempotency key: %w", err)
	}
	return a, true, nil
}

// KeepAnswer remembers what is answered under a key.
func (tx *Tx) KeepAnswer(key string, a Answer) error {
	a.At = tx.Now
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the answer to keep under an idempotency key: %w", err)
	}
	b, err := tx.bucket(answersBucket)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), raw)
}

// DropAnswers forgets what was answered before a time.
func (tx *Tx) DropAnswers(before time.Time) error {
	b := tx.bolt.Bucket([]byte(answersBucket))
	if b == nil {
		return nil
	}
	var old [][]byte
	err := b.ForEach(func(k, raw []byte) error {
		var a Answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("decode the answer kept under an idempotency key: %w", err)
		}
		if a.At.Before(before) {
			old = append(old, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range old {
		tx.dirty = true
		if err := b.Delete(k); err != nil {
			return fmt.Errorf("forget answers: %w", err)
		}
	}
	return nil
}
