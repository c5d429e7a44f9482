package api

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
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// Answer is the response to a write.
type Answer[T any] struct {
	Status   int
	ETag     string `header:"ETag" doc:"The new revision of the object."`
	Location string `header:"Location" doc:"The path of the job in which the write continues."`
	Replayed string `header:"Idempotency-Replayed" doc:"true if the response repeats an earlier one for the same Idempotency-Key."`
	Body     T
}

// done returns the response to a write of one object.
func done[T any](status int, k store.Kind[T], v *T) *Answer[T] {
	a := &Answer[T]{Status: status, Body: *v}
	if r := k.Object(v).Revision; r != "" {
		a.ETag = etag(r)
	}
	return a
}

// change runs a write by PUT, PATCH or DELETE in one transaction.
func change[T any](a *API, p WriteParams, fn func(*store.Tx) (*Answer[T], error)) (*Answer[T], error) {
	f, err := p.fence()
	if err != nil {
		return nil, err
	}
	run := a.Store.Update
	if p.DryRun {
		run = a.Store.Rehearse
	} else if err := a.raiseFence(f); err != nil {
		return nil, err
	}
	var answer *Answer[T]
	err = run(func(tx *store.Tx) (err error) {
		if err := f.check(tx); err != nil {
			return err
		}
		answer, err = fn(tx)
		if large, ok := errors.AsType[*store.TooLargeError](err); ok {
			return failure.New(http.StatusUnprocessableEntity, cloudv1.CodeInvalid, "%s", large)
		}
		return failure.Absent(err)
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// post is change for writes by POST: with an idempotency key, the write takes effect once, and its response is stored
// in the same transaction. request and body identify the request.
func post[T any](
	a *API, p PostParams, request string, body any, fn func(*store.Tx) (*Answer[T], error),
) (*Answer[T], error) {
	if p.IdempotencyKey == "" || p.DryRun {
		return change(a, p.WriteParams, fn)
	}
	sum, err := fingerprint(request, body)
	if err != nil {
		return nil, err
	}
	if !a.inFlight.enter(p.IdempotencyKey) {
		return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict,
			"another request with this idempotency key is in progress").RetryAfter(time.Second)
	}
	defer a.inFlight.leave(p.IdempotencyKey)
	return change(a, p.WriteParams, func(tx *store.Tx) (*Answer[T], error) {
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

func replay[T any](kept store.Answer, sum string) (*Answer[T], error) {
	if kept.Fingerprint != sum {
		return nil, failure.New(http.StatusUnprocessableEntity, cloudv1.CodeIdempotencyKeyReused,
			"the idempotency key was already used for a different request")
	}
	var answer Answer[T]
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
