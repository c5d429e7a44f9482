package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// server counts the requests that reach the handler, whose responses have the count.
type server struct {
	t       *testing.T
	url     string
	clock   *clocktesting.FakeClock
	faults  *Injector
	handled atomic.Int64
}

func newServer(t *testing.T, plan string) *server {
	t.Helper()
	s := &server{t: t, clock: clocktesting.NewFakeClock(time.Now())}
	s.faults = New(s.clock)
	s.set(plan)
	ts := httptest.NewServer(s.faults.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"handled": %d}`, s.handled.Add(1))
	})))
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s
}

func (s *server) set(plan string) {
	s.t.Helper()
	p, err := Parse([]byte(plan))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.faults.Set(p); err != nil {
		s.t.Fatal(err)
	}
}

// send returns status and body, or the error.
func (s *server) send(method, path string) (string, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body), err
}

func (s *server) expect(method, path, want string) {
	s.t.Helper()
	got, err := s.send(method, path)
	if err != nil || !strings.HasPrefix(got, want) {
		s.t.Errorf("%s %s: %q, %v; want %q", method, path, got, err, want)
	}
}

func TestFaults(t *testing.T) {
	const problem = " application/problem+json "
	tests := map[string]struct {
		rule string
		want string
		// handled is whether the request reaches the handler.
		handled int64
	}{
		"status":            {"{fault: status}", "503" + problem + `{"type":"about:blank","title":"Service Unavailable","status":503`, 0},
		"other status":      {"{fault: status, status: 423, code: locked}", "423" + problem, 0},
		"html":              {"{fault: html}", "502 text/html; charset=utf-8 <html>", 0},
		"false not-found":   {"{fault: not-found}", "404" + problem, 0},
		"commit, then fail": {"{fault: status, status: 500, code: internal, commit: true}", "500" + problem, 1},
		"commit, then html": {"{fault: html, commit: true}", "502 text/html", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "rules: ["+test.rule+"]")
			s.expect("POST", "/v1/load-balancers", test.want)
			if got := s.handled.Load(); got != test.handled {
				t.Errorf("handled %d times", got)
			}
		})
	}
}

func TestBrokenConnections(t *testing.T) {
	s := newServer(t, "rules: [{fault: reset, count: 1}, {fault: reset, commit: true, count: 1}, {fault: truncate}]")
	for _, handled := range []int64{0, 1} {
		if got, err := s.send("POST", "/v1/a"); !errors.Is(err, syscall.ECONNRESET) || s.handled.Load() != handled {
			t.Errorf("reset: %q, %v after %d requests", got, err, s.handled.Load())
		}
	}
	got, err := s.send("GET", "/v1/a")
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(got, `200 application/json {"h`) {
		t.Errorf("truncated: %q, %v", got, err)
	}
}

func TestSelection(t *testing.T) {
	s := newServer(t, `rules:
- {method: PUT, route: "/v1/load-balancers/{id}", fault: status, status: 500, skip: 1, count: 2}
- {route: "/v1/load-balancers/{id}:adopt", fault: status, status: 501}
- {route: "/v1/route-tables/*", fault: status, status: 502}
`)
	var got []string
	for _, r := range []string{
		"GET /v1/load-balancers/a", "PUT /v1/load-balancers/a", "PUT /v1/load-balancers/b", "PUT /v1/load-balancers/a/b",
		"PUT /v1/load-balancers/a", "PUT /v1/load-balancers/a", "POST /v1/load-balancers/a:adopt",
		"GET /v1/route-tables/rt/routes", "GET /v1/route-tables",
	} {
		method, path, _ := strings.Cut(r, " ")
		answer, err := s.send(method, path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, answer[:3]+" "+r)
	}
	if d := cmp.Diff([]string{
		"200 GET /v1/load-balancers/a", "200 PUT /v1/load-balancers/a", "500 PUT /v1/load-balancers/b",
		"200 PUT /v1/load-balancers/a/b", "500 PUT /v1/load-balancers/a", "200 PUT /v1/load-balancers/a",
		"501 POST /v1/load-balancers/a:adopt", "502 GET /v1/route-tables/rt/routes", "200 GET /v1/route-tables",
	}, got); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	var fired []int
	for _, r := range s.faults.Reports() {
		fired = append(fired, r.Selected, r.Fired)
	}
	if d := cmp.Diff([]int{3, 2, 1, 1, 1, 1}, fired); d != "" {
		t.Errorf("selected and fired (-want +got):\n%s", d)
	}
}

func TestProbabilityIsRepeatable(t *testing.T) {
	outcome := func(seed int) string {
		s := newServer(t, fmt.Sprintf("{seed: %d, rules: [{fault: status, probability: 0.5}]}", seed))
		var b strings.Builder
		for range 40 {
			got, err := s.send("GET", "/v1/a")
			if err != nil {
				t.Fatal(err)
			}
			b.WriteByte(got[0])
		}
		return b.String()
	}
	first := outcome(1)
	if n := strings.Count(first, "5"); n < 8 || n > 32 {
		t.Errorf("%d of 40 requests fail", n)
	}
	if again := outcome(1); again != first {
		t.Errorf("the same seed: %s, then %s", first, again)
	}
	if other := outcome(2); other == first {
		t.Error("another seed makes no difference")
	}
}

func TestStaleResponses(t *testing.T) {
	s := newServer(t, "rules: [{fault: stale, skip: 2, count: 2}]")
	s.expect("GET", "/v1/a", `200 application/json {"handled": 1}`)
	s.expect("POST", "/v1/a", `200 application/json {"handled": 2}`)
	s.expect("GET", "/v1/b", `200 application/json {"handled": 3}`)
	s.expect("GET", "/v1/a", `200 application/json {"handled": 1}`)
	s.expect("GET", "/v1/b", `200 application/json {"handled": 3}`)
	s.expect("GET", "/v1/a", `200 application/json {"handled": 4}`)
}

func TestDelayAndLag(t *testing.T) {
	for name, handledBefore := range map[string]int64{"delay": 0, "lag": 1} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "rules: [{"+name+": 10s}]")
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				s.expect("GET", "/v1/a", "200")
			}()
			for !s.clock.HasWaiters() {
				time.Sleep(time.Millisecond)
			}
			if got := s.handled.Load(); got != handledBefore {
				t.Errorf("handled %d times before the time is over", got)
			}
			s.clock.Step(10 * time.Second)
			<-answered
		})
	}
}

func TestFailedJobs(t *testing.T) {
	s := newServer(t, "rules: [{job: load-balancer.update, skip: 1, count: 1, code: capacity, status: 503}]")
	job := &cloudv1.Job{Object: cloudv1.Object{Name: "load-balancer.update"}}
	other := &cloudv1.Job{Object: cloudv1.Object{Name: "load-balancer.create"}}
	var codes []string
	for _, j := range []*cloudv1.Job{job, other, job, job} {
		code := ""
		if p := s.faults.Work(t.Context(), j); p != nil {
			code = p.Code
		}
		codes = append(codes, code)
	}
	if d := cmp.Diff([]string{"", "", "capacity", ""}, codes); d != "" {
		t.Errorf("codes (-want +got):\n%s", d)
	}
	s.expect("GET", "/v1/a", "200")
}

func TestPlansAreValidated(t *testing.T) {
	for plan, want := range map[string]string{
		"rules: [{}]":                                     "rules[0].fault: Required",
		"rules: [{fault: boom}]":                          "rules[0].fault: Unsupported value",
		"rules: [{fault: status, status: 200}]":           "rules[0].status: Invalid",
		"rules: [{fault: status, probability: 2}]":        "rules[0].probability: Invalid",
		"rules: [{fault: status, route: load-balancers}]": "rules[0].route: Invalid",
		"rules: [{job: a, fault: status}]":                "rules[0].job: Invalid",
		"rules: [{fault: status, count: -1}]":             "rules[0]: Invalid",
		"rules: [{delay: -1s}]":                           "rules[0].delay: Invalid",
		"rules: [{fault: status, when: now}]":             "when",
		"rules: {":                                        "fault plan",
	} {
		if _, err := Parse([]byte(plan)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", plan, err, want)
		}
	}
}
