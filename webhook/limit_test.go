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
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
)

// crowd is a set of webhooks that share a Limit and whose requests last until leave is closed.
type crowd struct {
	handlers map[string]http.Handler
	admitted chan struct{}
	calls    sync.WaitGroup
}

func newCrowd(t *testing.T, limit int, names ...string) *crowd {
	t.Helper()
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{handlers: map[string]http.Handler{}, admitted: make(chan struct{})}
	leave := make(chan struct{})
	shared := webhook.NewLimit(limit)
	for _, name := range names {
		c.handlers[name] = webhook.NewHandler(webhook.HandlerOptions{
			Name: name, Resource: services, Limit: shared, Metrics: metrics, Clock: clock.RealClock{},
			Admitter: admitterFunc(func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				c.admitted <- struct{}{}
				<-leave
				return webhook.Allow(), nil
			}),
		})
	}
	t.Cleanup(func() {
		close(leave)
		c.calls.Wait()
	})
	return c
}

// send sends a request and returns its response once it was rejected, or nil once it was admitted.
func (c *crowd) send(caller, name, namespace string) *httptest.ResponseRecorder {
	r := post(strings.Replace(reviewBody, `"shop"`, `"`+namespace+`"`, 1))
	r.URL.RawQuery = "timeout=100ms"
	r.RemoteAddr = caller + ":5555"
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
	for _, caller := range []string{"10.0.0.1", "[fd00::1]"} {
		c := newCrowd(t, 2, "validate-service")
		if w := c.send(caller, "validate-service", "shop"); w != nil {
			t.Fatalf("the first request got %d %s", w.Code, w.Body)
		}
		w := c.send(caller, "validate-service", "shop")
		if w == nil {
			t.Fatal("the second request of the same caller was admitted")
		}
		wantFailure(t, w, http.StatusServiceUnavailable, "too many concurrent admission requests")
		if after := w.Header().Get("Retry-After"); after != "" {
			t.Errorf("Retry-After is %q", after)
		}
		if w := c.send("10.0.0.2", "validate-service", "other"); w != nil {
			t.Errorf("another caller got %d %s", w.Code, w.Body)
		}
	}
}

// If all requests to one path wait, say for the cloud, those to another one do not.
func TestPathsDoNotWaitForEachOther(t *testing.T) {
	c := newCrowd(t, 1000, "mutate-persistentvolume", "validate-service")
	admitted := 0
	for c.send("10.0.0.1", "mutate-persistentvolume", "") == nil {
		admitted++
	}
	if w := c.send("10.0.0.1", "validate-service", "shop"); w != nil {
		t.Errorf("after %d requests to the other path, got %d %s", admitted, w.Code, w.Body)
	}
}

// A namespace leaves something for the others, even if it uses several paths.
func TestNamespacesShareFairly(t *testing.T) {
	paths := []string{"validate-service", "mutate-service", "mutate-persistentvolumeclaim"}
	c := newCrowd(t, 60, paths...)
	greedy := 0
	for c.send("10.0.0.1", paths[greedy%len(paths)], "shop") == nil {
		greedy++
	}
	if greedy > 24 {
		t.Errorf("one namespace got %d of 60", greedy)
	}
	if w := c.send("10.0.0.1", "validate-service", "other"); w != nil {
		t.Errorf("another namespace got %d %s", w.Code, w.Body)
	}
}

// Large bodies are bounded for all callers together, fairly, and never get in the way of ordinary ones.
func TestLargeBodies(t *testing.T) {
	f := newFixture(t, allow, 1000)
	end := make(chan struct{})
	var calls sync.WaitGroup
	fill := func(caller string) (reading int) {
		for {
			body := &endless{sent: 1 << 20, started: make(chan struct{}), end: end}
			r := httptest.NewRequest(http.MethodPost, "/validate-service", body)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = 7 << 20
			r.RemoteAddr = caller + ":5555"
			rejected := make(chan struct{})
			calls.Go(func() {
				defer close(rejected)
				f.handler.ServeHTTP(httptest.NewRecorder(), r)
			})
			select {
			case <-body.started:
				reading++
			case <-rejected:
				return reading
			}
		}
	}
	first := fill("10.0.0.1")
	second := fill("10.0.0.2")
	if first < 2 || first > 8 || second < 1 || first+second > 16 {
		t.Errorf("%d and then %d bodies, of which 1 MiB has arrived, are in memory", first, second)
	}
	for _, caller := range []string{"10.0.0.1", "10.0.0.3"} {
		r := post(reviewBody)
		r.RemoteAddr = caller + ":5555"
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("an ordinary request of %s got %d %s", caller, w.Code, w.Body)
		}
	}
	close(end)
	calls.Wait()
}

// The largest body is accepted, whether its length is announced or not.
func TestLargestBody(t *testing.T) {
	f := newFixture(t, allow, 1)
	for _, length := range []int64{7 << 20, -1} {
		r := post(reviewBody + strings.Repeat(" ", 7<<20-len(reviewBody)))
		r.ContentLength = length
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("length %d: got %d %s", length, w.Code, w.Body)
		}
	}
}

// endless is a body of which only the beginning arrives.
type endless struct {
	// sent is how much is still to arrive.
	sent         int
	started, end chan struct{}
}

func (e *endless) Read(b []byte) (int, error) {
	if e.sent > 0 {
		n := min(len(b), e.sent)
		e.sent -= n
		return n, nil
	}
	close(e.started)
	<-e.end
	return 0, io.ErrUnexpectedEOF
}

// Bodies that were announced and do not arrive cost nothing: neither memory nor the right to be handled.
func TestAnnouncedBodies(t *testing.T) {
	f := newFixture(t, allow, 1)
	end := make(chan struct{})
	var stalled sync.WaitGroup
	for range 50 {
		body := &endless{sent: 1, started: make(chan struct{}), end: end}
		r := httptest.NewRequest(http.MethodPost, "/validate-service?timeout=30s", body)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = 7 << 20
		stalled.Go(func() { f.handler.ServeHTTP(httptest.NewRecorder(), r) })
		<-body.started
	}
	for _, spaces := range []int{0, 1 << 20} {
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, post(reviewBody+strings.Repeat(" ", spaces)))
		if w.Code != http.StatusOK {
			t.Errorf("while bodies are stalled, a request with %d spaces got %d %s", spaces, w.Code, w.Body)
		}
	}
	close(end)
	stalled.Wait()
}

// Concurrent requests do not get each other's responses.
func TestConcurrentRequests(t *testing.T) {
	const callers = 100
	f := newFixture(t, func(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{string(req.UID)}}, nil
	}, 10*callers)
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

// What API servers send costs the handler no allocation before the body is decoded.
func TestHeadIsCheap(t *testing.T) {
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "validate-service", Resource: services, Limit: webhook.NewLimit(10), Metrics: metrics, Clock: clock.RealClock{},
		Admitter: admitterFunc(allow),
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

// While requests of one caller have all turns and more of them wait, the next turn is for another caller, whether the
// bodies are large or not.
func TestNextTurnIsForAnotherCaller(t *testing.T) {
	for name, spaces := range map[string]int{"ordinary": 0, "large": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				admitted, leave := make(chan string, 100), make(chan struct{})
				f := newFixture(t, func(_ context.Context, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
					admitted <- string(r.UID)
					<-leave
					return webhook.Allow(), nil
				}, 1000)
				var calls sync.WaitGroup
				send := func(caller string) {
					r := post(strings.Replace(reviewBody, `"u-1"`, `"`+caller+`"`, 1) + strings.Repeat(" ", spaces))
					r.RemoteAddr = caller + ":5555"
					calls.Go(func() { f.handler.ServeHTTP(httptest.NewRecorder(), r) })
					synctest.Wait()
				}
				for range 60 {
					send("10.0.0.1")
				}
				handled := len(admitted)
				if handled == 0 || handled == 60 {
					t.Fatalf("%d of 60 requests are handled at a time", handled)
				}
				send("10.0.0.2")
				for range handled {
					<-admitted
				}
				leave <- struct{}{}
				if next := <-admitted; next != "10.0.0.2" {
					t.Errorf("the next turn was for %s", next)
				}
				close(leave)
				calls.Wait()
			})
		})
	}
}
