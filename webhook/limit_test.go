package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// Of many concurrent large bodies that do not fit together, some are accepted, and the count returns to zero.
func TestOverloadAcceptsSome(t *testing.T) {
	f := newFixture(t, allow, 100)
	large := reviewBody + strings.Repeat(" ", 5<<20)
	for range 20 {
		var accepted atomic.Int32
		begin := make(chan struct{})
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				<-begin
				w := httptest.NewRecorder()
				f.handler.ServeHTTP(w, post(large))
				if w.Code == http.StatusOK {
					accepted.Add(1)
				}
			})
		}
		close(begin)
		calls.Wait()
		if accepted.Load() == 0 {
			t.Fatal("every request was rejected")
		}
	}
}

// Concurrent requests do not get each other's responses.
func TestConcurrentRequests(t *testing.T) {
	const callers = 100
	f := newFixture(t, func(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{string(req.UID)}}, nil
	}, callers)
	var calls sync.WaitGroup
	for i := range callers {
		uid := fmt.Sprintf("u-%d", i)
		calls.Go(func() {
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(strings.Replace(reviewBody, `"u-1"`, `"`+uid+`"`, 1)))
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || string(got.Response.UID) != uid ||
				got.Response.Warnings[0] != uid {
				t.Errorf("%s got %d %s", uid, w.Code, w.Body)
			}
		})
	}
	calls.Wait()
}
