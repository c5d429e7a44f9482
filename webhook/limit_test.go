package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/service"
)

// crowd is a set of webhooks that share a Limit and whose requests last until leave is closed.
type crowd struct {
	handlers map[string]http.Handler
	admitted chan struct{}
	calls    sync.WaitGroup
	body     string
}

func newCrowd(t *testing.T, limit int, names ...string) *crowd {
	t.Helper()
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	c := &crowd{handlers: map[string]http.Handler{}, admitted: make(chan struct{}), body: reviewBody}
	leave := make(chan struct{})
	shared := webhook.NewLimit(limit)
	for _, name := range names {
		c.handlers[name] = webhook.NewHandler(webhook.HandlerOptions{
			Name: name, Limit: shared, Metrics: metrics, Clock: clock.RealClock{},
			Admitter: admitterFunc(func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				c.admitted <- struct{}{}
				<-leave
				return webhook.Allow(), nil
			}).admitter(),
		})
	}
	t.Cleanup(func() {
		close(leave)
		c.calls.Wait()
	})
	return c
}

// send sends a request and returns its response once it was rejected, or nil once it was admitted.
func (c *crowd) send(name string) *httptest.ResponseRecorder {
	r := post(c.body)
	r.URL.RawQuery = "timeout=100ms"
	w := httptest.NewRecorder()
	answered := make(chan struct{})
	c.calls.Go(func() {
		defer close(answered)
		c.handlers[name].ServeHTTP(w, r)
	})
	select {
	case <-c.admitted:
		return nil
	case <-answered:
		return w
	}
}

// A rejected request is not to be repeated: the API server would do so until its own timeout, while the user waits.
func TestOverload(t *testing.T) {
	c := newCrowd(t, 1, "validate-service", "mutate-service")
	if w := c.send("validate-service"); w != nil {
		t.Fatalf("the first request got %d %s", w.Code, w.Body)
	}
	w := c.send("mutate-service")
	if w == nil {
		t.Fatal("a second request was admitted")
	}
	wantFailure(t, w, http.StatusServiceUnavailable, "too many concurrent admission requests")
	if after := w.Header().Get("Retry-After"); after != "" {
		t.Errorf("Retry-After is %q", after)
	}
}

// large is a review of which much is kept, so that it needs a place, and stalled the beginning of one.
var (
	large   = strings.Replace(reviewBody, `"namespace":"shop"`, `"namespace":"`+strings.Repeat("x", 64<<10)+`"`, 1)
	stalled = large[:40<<10]
)

// Large requests are handled as the budget allows. The others wait, and are never refused as long as there is time;
// ordinary ones do not wait for them.
func TestLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		var admitted, most, answered atomic.Int32
		f := newFixture(t, func(_ context.Context, r *webhook.Request) (*admissionv1.AdmissionResponse, error) {
			if len(r.Namespace) > 100 {
				most.Store(max(most.Load(), admitted.Add(1)))
				<-leave
				admitted.Add(-1)
			}
			return webhook.Allow(), nil
		}, 1000)
		var calls sync.WaitGroup
		for range 200 {
			calls.Go(func() {
				w := httptest.NewRecorder()
				if f.handler.ServeHTTP(w, post(large)); w.Code == http.StatusOK {
					answered.Add(1)
				}
			})
		}
		synctest.Wait()
		for _, body := range []string{reviewBody, reviewBody + strings.Repeat(" ", 1<<20)} {
			w := httptest.NewRecorder()
			if f.handler.ServeHTTP(w, post(body)); w.Code != http.StatusOK {
				t.Errorf("an ordinary request got %d %s", w.Code, w.Body)
			}
		}
		close(leave)
		if calls.Wait(); answered.Load() != 200 || most.Load() < 30 || most.Load() > 65 {
			t.Errorf("%d of 200 large requests were answered, %d at a time", answered.Load(), most.Load())
		}
	})
}

// Large bodies of which little is kept give their places back before the Admitter waits, say for the cloud.
func TestSkippedContentsHoldNothing(t *testing.T) {
	const requests = 50
	fields := `"managedFields":[` + strings.Repeat(`{"manager":"a"},`, 10_000) + `{}]`
	annotations := `"annotations":{"example.com/note":"` + strings.Repeat("x", 200<<10) + `"}`
	for kind, test := range map[string]struct {
		admitter webhook.Admitter
		metadata string
	}{
		"Service":               {service.NewMutator(service.Options{}), fields},
		"PersistentVolume":      {persistentvolume.NewMutator(persistentvolume.MutatorOptions{}), annotations},
		"PersistentVolumeClaim": {persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{}), annotations},
	} {
		t.Run(kind, func(t *testing.T) {
			body := strings.NewReplacer(
				`"kind":"Service"`, `"kind":"`+kind+`"`, `"services"`, `"`+test.admitter.Resource.Resource+`"`,
				`"object":{`, `"object":{"metadata":{`+test.metadata+`},`,
			).Replace(reviewBody)
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				var admitted atomic.Int32
				f := newFixture(t, func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
					admitted.Add(1)
					<-leave
					return webhook.Allow(), nil
				}, requests, func(o *webhook.HandlerOptions) {
					test.admitter.Admit = o.Admitter.Admit
					o.Admitter = test.admitter
				})
				var calls sync.WaitGroup
				for range requests {
					calls.Go(func() { f.handler.ServeHTTP(httptest.NewRecorder(), post(body)) })
				}
				// Some may have had to wait until others had skipped their contents.
				time.Sleep(time.Second)
				if synctest.Wait(); admitted.Load() != requests {
					t.Errorf("%d requests were admitted at a time, want %d", admitted.Load(), requests)
				}
				close(leave)
				calls.Wait()
			})
		})
	}
}

// The largest body is accepted, whether its length is announced or not.
func TestLargestBody(t *testing.T) {
	f := newFixture(t, allow, 1)
	for _, length := range []int64{32 << 20, -1} {
		r := post(reviewBody + strings.Repeat(" ", 32<<20-len(reviewBody)))
		r.ContentLength = length
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("length %d: got %d %s", length, w.Code, w.Body)
		}
	}
}

// endless is a body of which only the beginning arrives.
type endless struct {
	sent         io.Reader
	started, end chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	if n, err := e.sent.Read(b); err == nil {
		return n, nil
	}
	close(e.started)
	<-e.end
	return 0, io.ErrUnexpectedEOF
}

// Bodies that were announced and do not arrive cost nothing but a place among the requests, however much they are said to
// have, and whether they consist of spaces or have arrived in part.
func TestAnnouncedBodies(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "spaces": strings.Repeat(" ", 1<<20), "a part": stalled[:8<<10], "a large part": stalled} {
		f := newFixture(t, allow, 100)
		end := make(chan struct{})
		var waiting sync.WaitGroup
		for range 50 {
			body := &endless{sent: strings.NewReader(sent), started: make(chan struct{}), end: end}
			r := httptest.NewRequest(http.MethodPost, "/validate-service?timeout=30s", body)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = 7 << 20
			waiting.Go(func() { f.handler.ServeHTTP(httptest.NewRecorder(), r) })
			<-body.started
		}
		for _, body := range []string{reviewBody, reviewBody + strings.Repeat(" ", 1<<20), large} {
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(body))
			if w.Code != http.StatusOK {
				t.Errorf("%s: while bodies are stalled, a request of %d bytes got %d %s", name, len(body), w.Code, w.Body)
			}
		}
		close(end)
		waiting.Wait()
	}
}

// Concurrent requests do not get each other's responses.
func TestConcurrentRequests(t *testing.T) {
	const callers = 100
	f := newFixture(t, func(_ context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{req.Namespace}}, nil
	}, 10*callers)
	var calls sync.WaitGroup
	for i := range callers {
		uid := fmt.Sprintf("u-%d", i)
		calls.Go(func() {
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(strings.NewReplacer("u-1", uid, "shop", uid).Replace(reviewBody)))
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || string(got.Response.UID) != uid ||
				got.Response.Warnings[0] != uid {
				t.Errorf("%s got %d %s", uid, w.Code, w.Body)
			}
		})
	}
	calls.Wait()
}

// What API servers send costs the handler no allocation before the body is decoded.
func TestHeadIsCheap(t *testing.T) {
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "validate-service", Limit: webhook.NewLimit(10), Metrics: metrics, Clock: clock.RealClock{},
		Admitter: admitterFunc(allow).admitter(),
	})
	measure := func(contentType, query string) float64 {
		body := strings.NewReader("")
		r := post("{}")
		r.Header.Set("Content-Type", contentType)
		r.URL.RawQuery = query
		r.Body = io.NopCloser(body)
		r.ContentLength = 2
		return testing.AllocsPerRun(100, func() {
			body.Reset("{}")
			handler.ServeHTTP(discard{}, r)
		})
	}
	usual, other := measure("application/json", "timeout=3s"), measure("application/json; charset=utf-8", "timeout=3s&a=b")
	if usual >= other {
		t.Errorf("%g allocations for what API servers send, %g for other spellings of it", usual, other)
	}
}

// discard drops a response.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
