// Package write runs writes: under the preconditions that requests name, within the quotas, in one transaction, once for
// each idempotency key, or as a dry run.
package write

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/etag"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/fence"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Writer holds what writes have in common.
type Writer struct {
	store store.Store
	// quotas has the maximum number of objects by kind; a kind that is not in it has no limit.
	quotas   map[string]int
	inFlight inFlight
}

// New returns a writer. The quotas are the maximum numbers of objects by kind; other kinds have no limit.
func New(s store.Store, quotas map[string]int) *Writer { return &Writer{store: s, quotas: quotas} }

// Done returns the response to a write of one object.
func Done[T any](status int, k store.Kind[T], v *T) *operation.Answer[T] {
	a := &operation.Answer[T]{Status: status, Body: *v}
	if r := k.Object(v).Revision; r != "" {
		a.ETag = etag.Of(r)
	}
	return a
}

// Change runs a write by PUT, PATCH or DELETE in one transaction.
func Change[T any](w *Writer, p Params, fn func(*store.Tx) (*operation.Answer[T], error)) (*operation.Answer[T], error) {
	f, err := fence.Parse(p.Fence)
	if err != nil {
		return nil, err
	}
	run := w.store.Update
	if p.DryRun {
		run = w.store.Rehearse
	} else if err := f.Raise(w.store); err != nil {
		return nil, failure.Unavailable(err)
	}
	var answer *operation.Answer[T]
	err = run(func(tx *store.Tx) (err error) {
		if err := f.Check(tx); err != nil {
			return err
		}
		answer, err = fn(tx)
		if large, ok := errors.AsType[*store.TooLargeError](err); ok {
			return failure.New(http.StatusUnprocessableEntity, cloudv1.CodeInvalid, "%s", large)
		}
		return failure.Absent(err)
	})
	if err != nil {
		return nil, failure.Unavailable(err)
	}
	return answer, nil
}

// Post is Change for writes by POST: with an idempotency key, the write takes effect once, and its response is stored
// in the same transaction. request and body identify the request.
func Post[T any](
	w *Writer, p PostParams, request string, body any, fn func(*store.Tx) (*operation.Answer[T], error),
) (*operation.Answer[T], error) {
	if p.IdempotencyKey == "" || p.DryRun {
		return Change(w, p.Params, fn)
	}
	sum, err := fingerprint(request, body)
	if err != nil {
		return nil, err
	}
	if !w.inFlight.enter(p.IdempotencyKey) {
		return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict,
			"another request with this idempotency key is in progress").RetryAfter(time.Second)
	}
	defer w.inFlight.leave(p.IdempotencyKey)
	return Change(w, p.Params, func(tx *store.Tx) (*operation.Answer[T], error) {
		kept, found, err := tx.Answer(p.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		if found {
			return replay[T](kept, sum)
		}
		answer, err := fn(tx)
		if err != nil {
			return nil, err
		}
		content, err := json.Marshal(answer)
		if err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
		return answer, tx.KeepAnswer(p.IdempotencyKey, store.Answer{Fingerprint: sum, Content: content})
	})
}

func replay[T any](kept store.Answer, sum string) (*operation.Answer[T], error) {
	if kept.Fingerprint != sum {
		return nil, failure.New(http.StatusUnprocessableEntity, cloudv1.CodeIdempotencyKeyReused,
			"the idempotency key was already used for a different request")
	}
	var answer operation.Answer[T]
	if err := json.Unmarshal(kept.Content, &answer); err != nil {
		return nil, fmt.Errorf("decode the response to repeat: %w", err)
	}
	answer.Replayed = "true"
	return &answer, nil
}

func fingerprint(request string, body any) (string, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	digest := sha256.Sum256(append([]byte(request+"\n"), raw...))
	return hex.EncodeToString(digest[:]), nil
}

// inFlight holds the idempotency keys of requests in progress.
type inFlight struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (f *inFlight) enter(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] {
		return false
	}
	if f.keys == nil {
		f.keys = map[string]bool{}
	}
	f.keys[key] = true
	return true
}

func (f *inFlight) leave(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
}
