package cloudapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/lossless"
	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// server answers requests without a network, so that tests can have a time of their own.
type server struct {
	t *testing.T
	// respond answers the next requests; nil hangs until the request is canceled.
	respond  http.HandlerFunc
	fail     error
	requests []*http.Request
}

// RoundTrip serves a request.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	switch {
	case s.fail != nil:
		return nil, s.fail
	case s.respond == nil:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	s.respond(w, r)
	return w.Result(), nil
}

func (s *server) client(o cloudapi.Options) *cloudapi.Client {
	s.t.Helper()
	o.Endpoint = "https://cloud"
	if o.Token == nil {
		o.Token = cloudapi.StaticToken("t")
	}
	o.Wrap = func(http.RoundTripper) http.RoundTripper { return s }
	c, err := cloudapi.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// timeless runs a test in a time of its own.
func timeless(t *testing.T, f func(*testing.T, *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &server{t: t, respond: anyObject}) })
}

// anyObject answers every request with the object, list or lookup that it asks for.
func anyObject(w http.ResponseWriter, r *http.Request) {
	answer(200, asJSON, `{"id":"a","items":[],"revision":"7","complete":true,"state":"running"}`)(w, r)
}

func readOne(ctx context.Context, c *cloudapi.Client) error {
	_, err := c.Instance(ctx, "a")
	return err
}

func writeOne(ctx context.Context, c *cloudapi.Client) error {
	_, err := c.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "a"}, cloudapi.WriteOptions{})
	return err
}

// After a 429, the client is silent for as long as the cloud asks, but never longer than some minutes.
func TestSilenceAfter429(t *testing.T) {
	for name, test := range map[string]struct {
		header   func() string
		min, max time.Duration
	}{
		"seconds":         {func() string { return "27" }, 27 * time.Second, 30 * time.Second},
		"a date":          {func() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) }, 59 * time.Second, 67 * time.Second},
		"a year":          {func() string { return "31536000" }, 5 * time.Minute, 330 * time.Second},
		"next year":       {func() string { return time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat) }, 5 * time.Minute, 330 * time.Second},
		"more than fits":  {func() string { return "99999999999999999999999999" }, 5 * time.Minute, 330 * time.Second},
		"nothing":         {func() string { return "" }, time.Second, 2 * time.Second},
		"something wrong": {func() string { return "-5" }, time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			timeless(t, func(t *testing.T, s *server) {
				c := s.client(cloudapi.Options{})
				s.respond = answer(429, asProblem, `{"code":"rate-limited"}`, "Retry-After", test.header())
				_ = readOne(t.Context(), c)
				s.respond = anyObject
				err := readOne(t.Context(), c)
				after := cloudapi.RetryAfter(err)
				postponed, ok := errors.AsType[*cloudapi.PostponedError](err)
				if !ok || postponed.Reason != pace.ReasonSilence || after < test.min || after > test.max {
					t.Fatalf("%v, after %s, want from %s to %s", err, after, test.min, test.max)
				}
				// Callers that know only of the cloud's own answers see the remaining time, too.
				if e, ok := errors.AsType[*cloudapi.Error](err); !ok || e.RetryAfter != after || cloudapi.IsAbsent(err) {
					t.Errorf("%+v", e)
				}
				if _, err := c.LookupInstances(t.Context(), cloudv1.LookupRequest{}); cloudapi.RetryAfter(err) != after {
					t.Errorf("a read by POST: %v", err)
				}
				if err := writeOne(t.Context(), c); err != nil {
					t.Errorf("a write: %v", err)
				}
				if n := len(s.requests); n != 2 {
					t.Errorf("%d requests, want the one that was throttled and the write", n)
				}
				time.Sleep(after)
				if err := readOne(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An endpoint that fails again and again is left alone, others are not.
func TestCircuitBreaker(t *testing.T) {
	for name, broken := range map[string]*server{
		"no connection":                  {fail: errors.New("connection refused")},
		"a proxy without a server":       {respond: answer(502, asHTML, "<h1>Bad Gateway</h1>")},
		"an error":                       {respond: answer(500, asProblem, `{"code":"internal"}`)},
		"a proxy that calls it success":  {respond: answer(200, asHTML, "<h1>Welcome</h1>")},
		"503 without a time":             {respond: answer(503, asProblem, `{"code":"unavailable"}`)},
		"no response within the timeout": {},
	} {
		t.Run(name, func(t *testing.T) {
			timeless(t, func(t *testing.T, s *server) {
				c := s.client(cloudapi.Options{})
				s.respond, s.fail = broken.respond, broken.fail
				for range 20 {
					_ = readOne(t.Context(), c)
				}
				err := readOne(t.Context(), c)
				if postponed, ok := errors.AsType[*cloudapi.PostponedError](err); !ok || postponed.Reason != pace.ReasonCircuit {
					t.Fatal(err)
				}
				if n := len(s.requests); n != 5 {
					t.Errorf("%d requests, want 5", n)
				}
				if !c.Pace().Open["GET instances/{id}"] {
					t.Errorf("%+v", c.Pace())
				}
				s.respond, s.fail = anyObject, nil
				if err := writeOne(t.Context(), c); err != nil {
					t.Error(err)
				}
				time.Sleep(cloudapi.RetryAfter(err))
				if err := readOne(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		})
	}
	for name, fine := range map[string]http.HandlerFunc{
		"the cloud's 404":     answer(404, asProblem, `{"code":"resource-not-found"}`),
		"a conflict":          answer(409, asProblem, `{"code":"conflict"}`),
		"a rejected token":    answer(401, asProblem, `{"code":"unauthenticated"}`),
		"not modified":        answer(304, "", ""),
		"unsupported":         answer(501, asProblem, `{"code":"unsupported"}`),
		"no space, for once":  answer(507, asProblem, `{"code":"capacity"}`),
		"another object's id": anyObject,
	} {
		t.Run(name, func(t *testing.T) {
			timeless(t, func(t *testing.T, s *server) {
				c := s.client(cloudapi.Options{})
				s.respond = fine
				for range 20 {
					_, _ = c.Instance(t.Context(), "b")
				}
				if n := len(s.requests); n != 20 {
					t.Errorf("%d requests, want 20", n)
				}
			})
		})
	}
}

// Every call ends, also if the cloud is asked to hold its response, and at once if the caller gives up.
func TestDeadlines(t *testing.T) {
	hold := func(ctx context.Context, c *cloudapi.Client) error {
		_, err := c.Job(ctx, "a", 30*time.Second)
		return err
	}
	for name, test := range map[string]struct {
		call    func(context.Context, *cloudapi.Client) error
		timeout time.Duration
		giveUp  time.Duration
		want    time.Duration
	}{
		"the default":          {readOne, 0, 0, time.Minute},
		"as configured":        {writeOne, 5 * time.Second, 0, 5 * time.Second},
		"held":                 {hold, 5 * time.Second, 0, 35 * time.Second},
		"the caller gives up":  {readOne, 0, time.Second, time.Second},
		"held, and given up":   {hold, 0, time.Second, time.Second},
		"a write, and give up": {writeOne, 0, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			timeless(t, func(t *testing.T, s *server) {
				s.respond = nil
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.giveUp > 0 {
					time.AfterFunc(test.giveUp, cancel)
				}
				start := time.Now()
				err := test.call(ctx, s.client(cloudapi.Options{Timeout: test.timeout}))
				if took := time.Since(start); err == nil || took != test.want {
					t.Errorf("%v after %s, want %s", err, took, test.want)
				}
			})
		})
	}
}

// A long list waits for budget between its pages. What is less important is postponed first.
func TestBudget(t *testing.T) {
	timeless(t, func(t *testing.T, s *server) {
		c := s.client(cloudapi.Options{})
		pages := 0
		limits := []string{"RateLimit-Policy", `"read";q=600;w=60, "write";q=600;w=60`}
		s.respond = func(w http.ResponseWriter, r *http.Request) {
			next := ""
			if pages++; pages%150 != 0 {
				next = strconv.Itoa(pages)
			}
			body := fmt.Sprintf(`{"items":[],"revision":"7","complete":true,"next_page_token":%q}`, next)
			answer(200, asJSON, body, limits...)(w, r)
		}
		start := time.Now()
		if _, err := c.ListInstances(t.Context(), cloudapi.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		// 45 requests at once, which leaves a reserve, then four per second.
		if took := time.Since(start).Round(time.Second); pages != 150 || took != 26*time.Second {
			t.Errorf("%d pages in %s", pages, took)
		}
		s.respond = anyObject
		drift := cloudapi.WithClass(t.Context(), pace.Drift)
		err := readOne(drift, c)
		postponed, ok := errors.AsType[*cloudapi.PostponedError](err)
		if !ok || postponed.Reason != pace.ReasonBudget || postponed.After < 3*time.Second {
			t.Errorf("a read for drift: %v", err)
		}
		if err := readOne(cloudapi.WithClass(t.Context(), cloudapi.Safety), c); err != nil {
			t.Error(err)
		}
		if err := writeOne(drift, c); err != nil {
			t.Errorf("a write has its own budget: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := readOne(ctx, c); cloudapi.RetryAfter(err) == 0 {
			t.Errorf("a caller that cannot wait: %v", err)
		}
	})
}

// Every write has the fence of the leader, and the leader learns that the cloud has seen a later one.
func TestFence(t *testing.T) {
	timeless(t, func(t *testing.T, s *server) {
		fence, fenced := "uid;epoch=3", 0
		c := s.client(cloudapi.Options{
			Fence: func() string { return fence }, OnFenced: func(error) { fenced++ },
		})
		ctx := t.Context()
		_, _ = c.LookupInstances(ctx, cloudv1.LookupRequest{})
		_ = readOne(ctx, c)
		_ = writeOne(ctx, c)
		_, _, _ = c.PatchLoadBalancer(ctx, "a", cloudv1.LoadBalancerPatch{}, cloudapi.WriteOptions{})
		_, _ = c.DeleteLoadBalancer(ctx, "a", cloudapi.WriteOptions{})
		fence = ""
		_ = writeOne(ctx, c)
		var got []string
		for _, r := range s.requests {
			got = append(got, r.Method+" "+r.Header.Get(cloudv1.HeaderFence))
		}
		want := []string{"POST ", "GET ", "POST uid;epoch=3", "PATCH uid;epoch=3", "DELETE uid;epoch=3", "POST "}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fences (-want +got):\n%s", diff)
		}
		s.respond = answer(412, asProblem, `{"code":"stale-revision"}`)
		_ = writeOne(ctx, c)
		s.respond = answer(412, asProblem, `{"code":"fenced"}`)
		if err := writeOne(ctx, c); !cloudapi.HasCode(err, cloudv1.CodeFenced) || fenced != 1 {
			t.Errorf("fenced %d times, %v", fenced, err)
		}
	})
}

// A token that was replaced is used before the cloud rejects the former one; a file that is just being replaced does
// no harm.
func TestTokenChangeIsNoticed(t *testing.T) {
	timeless(t, func(t *testing.T, s *server) {
		token, unread := "one", error(nil)
		c := s.client(cloudapi.Options{Token: func() (string, error) { return token, unread }})
		for _, step := range []struct {
			token  string
			unread error
			pass   time.Duration
			want   string
		}{
			{"one", nil, 0, "one"},
			{"two", nil, 9 * time.Second, "one"},
			{"two", nil, time.Second, "two"},
			{"", io.ErrUnexpectedEOF, time.Minute, "two"},
			{"three", nil, 0, "three"},
		} {
			token, unread = step.token, step.unread
			time.Sleep(step.pass)
			if err := readOne(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got := s.requests[len(s.requests)-1].Header.Get("Authorization"); got != "Bearer "+step.want {
				t.Errorf("%+v: %s", step, got)
			}
		}
	})
}

// Changes asks for what happened since a revision, and waits for it.
func TestChanges(t *testing.T) {
	timeless(t, func(t *testing.T, s *server) {
		c := s.client(cloudapi.Options{})
		s.respond = answer(200, asJSON, `{"revision":"9","more":true,"items":[
			{"kind":"load-balancer","id":"lb-1","revision":"8","op":"upsert","object":{"id":"lb-1","color":"red"}},
			{"kind":"node-group","id":"ng-1","revision":"9","op":"delete"}]}`)
		kinds := []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup}
		changes, err := c.Changes(t.Context(), "7", kinds, 55*time.Second)
		if err != nil || changes.Revision != "9" || !changes.More || len(changes.Items) != 2 {
			t.Fatalf("%+v, %v", changes, err)
		}
		want := "/v1/changes?kinds=load-balancer%2Cnode-group&since=7&wait=55"
		if got := s.requests[0].URL.RequestURI(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		lb, err := lossless.LoadBalancer(changes.Items[0].Object)
		if err != nil || lb.ID != "lb-1" || string(lb.Unknown) != `{"id":"lb-1","color":"red"}` {
			t.Errorf("%+v, %v", lb, err)
		}
		s.respond = answer(410, asProblem, `{"code":"page-token-expired"}`)
		if _, err = c.Changes(t.Context(), "1", kinds, 0); !cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
			t.Error(err)
		}
		s.respond = nil
		start := time.Now()
		_, err = c.Changes(t.Context(), "9", kinds, 55*time.Second)
		if took := time.Since(start); err == nil || took != 115*time.Second {
			t.Errorf("%v after %s, want the wait and the timeout", err, took)
		}
	})
}

// Heartbeats are sent whatever the pace of requests: an edge would count as offline because of other requests.
func TestHeartbeatsAreNotPaced(t *testing.T) {
	timeless(t, func(t *testing.T, s *server) {
		c := s.client(cloudapi.Options{})
		s.respond = answer(429, asProblem, `{"code":"rate-limited"}`, "Retry-After", "60")
		_, _ = readOne(t.Context(), c), writeOne(t.Context(), c)
		s.respond = answer(503, asProblem, `{"code":"unavailable"}`, "Retry-After", "60")
		for range 10 {
			_, _ = c.Heartbeat(t.Context(), "edge-1", cloudv1.Heartbeat{})
		}
		s.respond = answer(200, asJSON, `{"complete":true,"interval_ms":2000}`)
		before := len(s.requests)
		reply, err := c.Heartbeat(t.Context(), "edge-1", cloudv1.Heartbeat{})
		if err != nil || reply.IntervalMS != 2000 || len(s.requests) != before+1 {
			t.Errorf("%+v, %v after %d requests", reply, err, len(s.requests)-before)
		}
		if err := writeOne(t.Context(), c); cloudapi.RetryAfter(err) == 0 {
			t.Errorf("a write passes, too: %v", err)
		}
	})
}
