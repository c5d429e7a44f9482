package cloudapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// servers are two servers of a cloud, of which a client uses the first one.
type servers struct {
	client        *cloudapi.Client
	first, second *serverOf
}

// serverOf is a server whose behavior the test changes.
type serverOf struct {
	*httptest.Server

	handler atomic.Pointer[http.HandlerFunc]
	// asked counts requests.
	asked atomic.Int64
}

func (s *serverOf) behave(h http.HandlerFunc) { s.handler.Store(&h) }

func newServers(t *testing.T) *servers {
	t.Helper()
	start := func() *serverOf {
		s := &serverOf{}
		s.behave(answer(200, asJSON, `{"id":"c","revision":"1"}`))
		s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.asked.Add(1)
			(*s.handler.Load())(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	a, b := start(), start()
	c, err := cloudapi.New(cloudapi.Options{
		Endpoint: a.URL, OtherEndpoints: []string{b.URL}, Token: cloudapi.StaticToken("t"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Meta(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.asked.Load() == 0 {
		a, b = b, a
	}
	a.asked.Store(0)
	return &servers{client: c, first: a, second: b}
}

func (s *servers) expect(t *testing.T, what string, first, second int64) {
	t.Helper()
	if a, b := s.first.asked.Load(), s.second.asked.Load(); a != first || b != second {
		t.Errorf("%s: the servers were asked %d and %d times, want %d and %d", what, a, b, first, second)
	}
}

// abort ends the connection without a response, after the request has arrived.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// noResponse does not respond.
func noResponse(_ http.ResponseWriter, r *http.Request) {
	// A server notices that the client is gone once it has read the request.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestReadsGoElsewhere: a read that one server does not answer is answered by another one, which all calls use from then on.
func TestReadsGoElsewhere(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"it ends the connection":     abort,
		"it has no state":            answer(503, asProblem, `{"status":503,"code":"unavailable"}`, "Retry-After", "1"),
		"its proxy has no peer":      answer(502, asHTML, "<h1>Bad Gateway</h1>"),
		"it does not know the token": answer(401, asProblem, `{"status":401,"code":"unauthenticated"}`),
		"it ends its response": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", asJSON)
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"id":`))
		},
		"it is silent": noResponse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t)
			s.first.behave(h)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := s.client.Meta(ctx); err != nil {
				t.Fatal(err)
			}
			// The library repeats a read itself if a connection that was used before has ended.
			asked := s.first.asked.Load()
			if asked == 0 || s.second.asked.Load() != 1 {
				t.Errorf("first call: the servers were asked %d and %d times", asked, s.second.asked.Load())
			}
			if _, err := s.client.Meta(t.Context()); err != nil {
				t.Error(err)
			}
			s.expect(t, "second call", asked, 2)
			// It returns when the other one fails.
			s.first.behave(answer(200, asJSON, `{"id":"c","revision":"1"}`))
			s.second.CloseClientConnections()
			s.second.Close()
			if _, err := s.client.Meta(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBackupGoesElsewhere: a backup is that of another server if one does not begin its response, but never of two.
func TestBackupGoesElsewhere(t *testing.T) {
	t.Parallel()
	const whole = "the state"
	for name, test := range map[string]struct {
		first  http.HandlerFunc
		second int64
		want   string
	}{
		"it is silent":           {noResponse, 1, whole},
		"it ends the connection": {abort, 1, whole},
		"it has no state":        {answer(503, asProblem, `{"status":503,"code":"unavailable"}`), 1, whole},
		"it ends its response":   {answer(200, "application/octet-stream", "the", "Content-Length", "100"), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t)
			s.first.behave(test.first)
			s.second.behave(answer(200, "application/octet-stream", whole))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var got strings.Builder
			if err := s.client.Backup(ctx, &got); (err == nil) != (test.want != "") {
				t.Errorf("error %v", err)
			}
			if test.want != "" && got.String() != test.want || s.second.asked.Load() != test.second {
				t.Errorf("got %q, and the second server was asked %d times", got.String(), s.second.asked.Load())
			}
		})
	}
}

// TestAnswersStay: what a server says is its answer, and another one is not asked for a better one.
func TestAnswersStay(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"not found":    answer(404, asProblem, `{"status":404,"code":"resource-not-found"}`),
		"internal":     answer(500, asProblem, `{"status":500,"code":"internal"}`),
		"rate limited": answer(429, asProblem, `{"status":429,"code":"rate-limited"}`),
		"HTML":         answer(200, asHTML, "<h1>Welcome</h1>"),
	} {
		s := newServers(t)
		s.first.behave(h)
		if _, err := s.client.Instance(t.Context(), "i-1"); err == nil {
			t.Errorf("%s: no error", name)
		}
		s.expect(t, name, 1, 0)
	}
}

// TestWritesTakeEffectOnce: a write goes to another server only if none can have it, or the cloud recognizes it.
func TestWritesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	created := answer(201, asJSON, `{"id":"ng-1","name":"a","revision":"1"}`)
	create := func(t *testing.T, s *servers, o cloudapi.WriteOptions) error {
		t.Helper()
		s.second.behave(created)
		_, err := s.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "a"}, o)
		return err
	}
	t.Run("it may have arrived", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		s.first.behave(abort)
		if err := create(t, s, cloudapi.WriteOptions{}); err == nil {
			t.Error("no error")
		}
		s.expect(t, "first call", 1, 0)
		if err := create(t, s, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
		s.expect(t, "second call", 1, 1)
	})
	t.Run("the token is unknown", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		s.first.behave(answer(401, asProblem, `{"status":401,"code":"unauthenticated"}`))
		if err := create(t, s, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
		s.expect(t, "call", 1, 1)
	})
	t.Run("with an idempotency key", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		s.first.behave(abort)
		if err := create(t, s, cloudapi.WriteOptions{IdempotencyKey: "k"}); err != nil {
			t.Error(err)
		}
		if n := s.second.asked.Load(); n != 1 {
			t.Errorf("the other server was asked %d times", n)
		}
	})
	t.Run("it is silent", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		s.first.behave(noResponse)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "a"}, cloudapi.WriteOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		s.expect(t, "first call", 1, 0)
		if err := create(t, s, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
		s.expect(t, "second call", 1, 1)
	})
	t.Run("no connection", func(t *testing.T) {
		t.Parallel()
		s := newServers(t)
		s.second.behave(created)
		s.first.Close()
		// A client begins with either of them.
		for range 16 {
			c, err := cloudapi.New(cloudapi.Options{
				Endpoint: s.first.URL, OtherEndpoints: []string{s.second.URL}, Token: cloudapi.StaticToken("t"),
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "a"}, cloudapi.WriteOptions{}); err != nil {
				t.Error(err)
			}
		}
		s.expect(t, "calls", 0, 16)
	})
}

// TestListAgain: a list whose next page is with a server that has failed is read again.
func TestListAgain(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.first.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page_token") != "" {
			abort(w, r)
		}
		answer(200, asJSON, `{"items":[{"id":"i-old"}],"revision":"1","next_page_token":"p","complete":false}`)(w, r)
	})
	s.second.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page_token") != "" {
			answer(410, asProblem, `{"status":410,"code":"page-token-expired"}`)(w, r)
			return
		}
		if r.URL.Query().Get("tag") != "a:b" || r.Header.Get("If-None-Match") == "" {
			t.Errorf("repeated without its parameters: %s %v", r.URL, r.Header)
		}
		answer(200, asJSON, `{"items":[{"id":"i-1"},{"id":"i-2"}],"revision":"2","complete":true}`)(w, r)
	})
	l, err := s.client.ListInstances(t.Context(), cloudapi.ListOptions{Tags: map[string]string{"a": "b"}, IfNoneMatch: "0"})
	if err != nil || len(l.Items) != 2 || l.Items[0].ID != "i-1" || l.Revision != "2" {
		t.Errorf("list %+v, error %v", l, err)
	}
}

// TestCallersThatLeave: a caller that waits no longer for a response that a server holds does not move others elsewhere.
func TestCallersThatLeave(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.first.behave(noResponse)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.client.Changes(ctx, "1", nil, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	s.first.behave(answer(200, asJSON, `{"id":"c","revision":"1"}`))
	if _, err := s.client.Meta(t.Context()); err != nil {
		t.Error(err)
	}
	s.expect(t, "call after it", 2, 0)
}

func TestEndpointsAreChecked(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]string{
		"https://a/v1":     "must not have a user, a path or a query",
		"http://b.example": "must not send the token in the clear",
		"https://a":        "must not be repeated",
		"":                 "must be http://host:port or https://host:port",
	} {
		_, err := cloudapi.New(cloudapi.Options{
			Endpoint: "https://a", OtherEndpoints: []string{other}, Token: cloudapi.StaticToken("t"),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", other, err, want)
		}
	}
}

// TestServerOfOtherCloud: a server that belongs to a different cloud fails one call, and the next one goes elsewhere.
func TestServerOfOtherCloud(t *testing.T) {
	t.Parallel()
	of := func(cloud string) string {
		s := httptest.NewServer(answer(200, asJSON, `{"id":"`+cloud+`","revision":"1"}`, cloudv1.HeaderState, cloud+";revision=1"))
		t.Cleanup(s.Close)
		return s.URL
	}
	own, other := of("c"), of("other")
	failed := 0
	for range 32 { // each begins with a random one
		var c *cloudapi.Client
		c, err := cloudapi.New(cloudapi.Options{
			Endpoint: own, OtherEndpoints: []string{other}, Token: cloudapi.StaticToken("t"),
			Identify: func(context.Context) error {
				c.Expect("c", "1")
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Meta(t.Context()); errors.Is(err, cloudapi.ErrOtherState) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Meta(t.Context()); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}
	if failed == 0 || failed == 32 {
		t.Errorf("%d of 32 clients began with the other cloud", failed)
	}
}
