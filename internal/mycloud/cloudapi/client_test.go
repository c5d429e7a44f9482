package cloudapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// newClient returns a client of a server whose responses the test chooses.
func newClient(t *testing.T, h http.HandlerFunc) *cloudapi.Client {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	c, err := cloudapi.New(cloudapi.Options{Endpoint: ts.URL, Token: cloudapi.StaticToken("t")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

const (
	asJSON    = "application/json"
	asProblem = "application/problem+json"
	asHTML    = "text/html; charset=utf-8"
)

// TestOnlyTheCloudSaysNotFound tests the client's part of the rule that only the cloud itself can declare a Node's
// machine gone.
func TestOnlyTheCloudSaysNotFound(t *testing.T) {
	instance := `{"id":"i-1","name":"n","state":"running","revision":"1"}`
	problem := func(code string) string {
		return `{"type":"about:blank","title":"x","status":404,"code":"` + code + `"}`
	}
	tests := map[string]struct {
		handler  http.HandlerFunc
		found    bool
		notFound bool
		want     string
	}{
		"found":                 {handler: answer(200, asJSON, instance), found: true},
		"found, with a charset": {handler: answer(200, asJSON+"; charset=utf-8", instance), found: true},
		"the cloud's 404": {
			handler: answer(404, asProblem, problem("resource-not-found")), notFound: true, want: "resource-not-found",
		},
		"404 of an unknown path": {handler: answer(404, asProblem, problem("unsupported")), want: "unsupported"},
		"404 in HTML": {
			handler: answer(404, asHTML, "<h1>Not Found</h1>"), want: "without a problem document",
		},
		"404 in plain JSON": {
			handler: answer(404, asJSON, problem("resource-not-found")), want: "without a problem document",
		},
		"404 with a broken problem": {handler: answer(404, asProblem, `{"code":`), want: "without a problem document"},
		"404 with a problem of no code": {
			handler: answer(404, asProblem, `{"title":"Not Found"}`), want: "without a problem document",
		},
		"410 with that code":           {handler: answer(410, asProblem, problem("resource-not-found")), want: "410"},
		"500":                          {handler: answer(500, asProblem, problem("internal")), want: "500 internal"},
		"200 in HTML":                  {handler: answer(200, asHTML, "<h1>Welcome</h1>"), want: `content type "text/html"`},
		"200 with another object":      {handler: answer(200, asJSON, `{"id":"i-2"}`), want: `the object's id is "i-2"`},
		"200 with an empty object":     {handler: answer(200, asJSON, `{}`), want: `the object's id is ""`},
		"200 with null":                {handler: answer(200, asJSON, `null`), want: "malformed response"},
		"200 with nothing":             {handler: answer(200, asJSON, ``), want: "decode response"},
		"200 with half an object":      {handler: answer(200, asJSON, instance[:20]), want: "decode response"},
		"200 with more than an object": {handler: answer(200, asJSON, instance+instance), want: "decode response"},
		"200 cut short": {
			handler: answer(200, asJSON, instance, "Content-Length", "1000"), want: "unexpected EOF",
		},
		"404 cut short": {
			handler: answer(404, asProblem, problem("resource-not-found"), "Content-Length", "1000"), want: "unexpected EOF",
		},
		"redirect": {
			handler: answer(302, asHTML, "", "Location", "/v1/instances/i-1?again"), want: "302",
		},
		"connection reset": {handler: func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}, want: "EOF"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i, err := newClient(t, test.handler).Instance(t.Context(), "i-1")
			if test.found {
				if err != nil || i.State != cloudv1.InstanceRunning {
					t.Fatalf("%+v, %v", i, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error, but %+v", i)
			}
			if got := cloudapi.IsNotFound(err); got != test.notFound {
				t.Errorf("IsNotFound = %t for %v", got, err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q lacks %q", err, test.want)
			}
		})
	}
}

func TestListsAreWholeOrAnError(t *testing.T) {
	page := func(items, next, revision string, complete bool) string {
		return fmt.Sprintf(`{"items":%s,"next_page_token":%q,"revision":%q,"complete":%t}`, items, next, revision, complete)
	}
	pages := func(bodies ...string) http.HandlerFunc {
		n := 0
		return func(w http.ResponseWriter, r *http.Request) {
			body := bodies[min(n, len(bodies)-1)]
			if want := map[bool]string{true: "", false: "more"}[n == 0]; r.URL.Query().Get("page_token") != want {
				body = "wrong page token"
			}
			n++
			answer(200, asJSON, body)(w, r)
		}
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		items   int
		want    string
	}{
		"empty": {handler: pages(page("[]", "", "7", true))},
		"two pages": {
			handler: pages(page(`[{"id":"a"}]`, "more", "7", false), page(`[{"id":"b"}]`, "", "7", true)), items: 2,
		},
		"not complete": {
			handler: pages(page(`[{"id":"a"}]`, "", "7", false)), want: cloudapi.ErrIncomplete.Error(),
		},
		"no items":    {handler: pages(`{"revision":"7","complete":true}`), want: "items or revision is missing"},
		"no revision": {handler: pages(`{"items":[],"complete":true}`), want: "items or revision is missing"},
		"null":        {handler: pages(`null`), want: "items or revision is missing"},
		"pages of two snapshots": {
			handler: pages(page(`[]`, "more", "7", false), page(`[]`, "", "8", true)),
			want:    "a page of revision 8 follows one of 7",
		},
		"the second page is HTML": {handler: pages(page(`[]`, "more", "7", false), "<html>"), want: "decode response"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := newClient(t, test.handler).ListInstances(t.Context(), cloudapi.ListOptions{})
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%+v, %v, want %q", l, err, test.want)
				}
				return
			}
			if err != nil || len(l.Items) != test.items || !l.Complete {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// A server that never ends a list costs as many requests as a list may have pages, at most.
func TestListsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		token    func(n int) string
		want     string
		requests int
	}{
		"the same token for ever": {func(int) string { return "more" }, "a page token is repeated", 2},
		"two tokens in turns":     {func(n int) string { return strconv.Itoa(n % 2) }, "a page token is repeated", 3},
		"a new token for ever":    {strconv.Itoa, "more than 1000 pages", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			_, err := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				n++
				answer(200, asJSON, `{"items":[],"next_page_token":"`+test.token(n)+`","revision":"7"}`)(w, r)
			}).ListInstances(t.Context(), cloudapi.ListOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) || n != test.requests {
				t.Errorf("%d requests, %v; want %d and %q", n, err, test.requests, test.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	var got *http.Request
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer(200, asJSON, `{"id":"lb/1","items":[],"revision":"7","complete":true}`)(w, r)
	})
	ctx := t.Context()
	_, _ = c.ListLoadBalancers(ctx, cloudapi.ListOptions{
		Tags: map[string]string{"b": "2", "a": "1:2"}, IDs: []string{"x", "y"}, Name: "n", State: "s", IncludeDeleted: true, PageSize: 5, IfNoneMatch: "7",
	})
	want := "/v1/load-balancers?expand=tree&id=x&id=y&include_deleted=true&limit=5&name=n&state=s&tag=a%3A1%3A2&tag=b%3A2"
	if d := cmp.Diff(want, got.URL.RequestURI()); d != "" {
		t.Error(d)
	}
	headers := func(names ...string) []string {
		var all []string
		for _, n := range names {
			all = append(all, got.Header.Get(n))
		}
		return all
	}
	if d := cmp.Diff([]string{`"7"`, "Bearer t", "quaymaster", ""}, headers("If-None-Match", "Authorization", "User-Agent", "Content-Type")); d != "" {
		t.Error(d)
	}
	if got.Header.Get("Request-Id") == "" {
		t.Error("no Request-Id")
	}
	_, _, _ = c.PatchLoadBalancer(
		ctx,
		"lb/1",
		cloudv1.LoadBalancerPatch{Tags: map[string]*string{"a": nil}},
		cloudapi.WriteOptions{
			IfMatch: "7", IfTags: map[string]string{"b": "2", "a": "1"}, IdempotencyKey: "k", DryRun: true,
		},
	)
	if d := cmp.Diff("PATCH /v1/load-balancers/lb%2F1?dry_run=true", got.Method+" "+got.URL.RequestURI()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{`"7"`, "a=1,b=2", "k", "application/merge-patch+json"},
		headers("If-Match", "Mycloud-If-Tags", "Idempotency-Key", "Content-Type")); d != "" {
		t.Error(d)
	}
}

func TestErrorsTellWhatTheyKnow(t *testing.T) {
	body := `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"the request is invalid","code":"invalid",
		"errors":[{"pointer":"/name","code":"invalid","detail":"too long"},{"pointer":"/port","code":"invalid","detail":"too large"}]}`
	err := newClient(
		t, answer(422, asProblem, body, "Retry-After", "7"),
	).ValidateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{})
	e, ok := errors.AsType[*cloudapi.Error](err)
	if !ok {
		t.Fatalf("%T %v", err, err)
	}
	if e.RetryAfter != 7*time.Second || e.Status != 422 || e.RequestID == "" ||
		!cloudapi.HasCode(err, "x", cloudv1.CodeInvalid) {
		t.Errorf("%+v", e)
	}
	want := "POST /v1/load-balancers:validate: 422 invalid: the request is invalid: /name: too long; /port: too large (request " + e.RequestID + ")"
	if d := cmp.Diff(want, err.Error()); d != "" {
		t.Error(d)
	}
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	err = newClient(
		t, answer(503, asHTML, "", "Retry-After", soon),
	).ValidateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{})
	if e, ok = errors.AsType[*cloudapi.Error](err); !ok || e.RetryAfter != 5*time.Minute {
		t.Errorf("a date: %+v", e)
	}
	err = newClient(
		t, answer(503, asHTML, "", "Retry-After", "soon"),
	).ValidateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{})
	if e, ok = errors.AsType[*cloudapi.Error](err); !ok || e.RetryAfter != 0 {
		t.Errorf("nonsense: %+v", e)
	}
}

func TestTokenIsReadAgainAfter401(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	save := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	valid, requests := "one", 0
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.Header.Get("Authorization") != "Bearer "+valid {
			answer(401, asProblem, `{"code":"unauthenticated"}`)(w, r)
			return
		}
		body := make([]byte, 64)
		n, _ := r.Body.Read(body)
		answer(201, asJSON, `{"id":"ng-1","name":"`+fmt.Sprint(n > 0)+`"}`)(w, r)
	}))
	defer ts.Close()
	c, err := cloudapi.New(cloudapi.Options{Endpoint: ts.URL, Token: cloudapi.TokenFile(path)})
	if err != nil {
		t.Fatal(err)
	}
	create := func() (*cloudv1.NodeGroup, error) {
		return c.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "a"}, cloudapi.WriteOptions{})
	}
	if _, err := create(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no token file: %v", err)
	}
	save("one")
	if _, err := create(); err != nil {
		t.Fatal(err)
	}
	valid = "two"
	save("two")
	g, err := create()
	if err != nil || g.Name != "true" {
		t.Errorf("the body of the repeated request: %+v, %v", g, err)
	}
	requests, valid = 0, "three"
	if _, err := create(); !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) || requests != 1 {
		t.Errorf("a token that is still the old one: %d requests, %v", requests, err)
	}
	save("")
	if _, err := create(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file: %v", err)
	}
}

func TestJobsOfWrites(t *testing.T) {
	lb := `{"id":"lb-1"}`
	tests := map[string]struct {
		handler http.HandlerFunc
		job     string
		fails   bool
	}{
		"done":               {handler: answer(201, asJSON, lb)},
		"continues in a job": {handler: answer(202, asJSON, lb, "Location", "/v1/jobs/job-1"), job: "job-1"},
		"job with a host": {
			handler: answer(202, asJSON, lb, "Location", "https://cloud/v1/jobs/job-1"),
			job:     "job-1",
		},
		"job without location":     {handler: answer(202, asJSON, lb), fails: true},
		"location of another kind": {handler: answer(202, asJSON, lb, "Location", "/v1/tasks/1"), fails: true},
		"an object without an id":  {handler: answer(201, asJSON, `{}`), fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, job, err := newClient(
				t, test.handler,
			).CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{}, cloudapi.WriteOptions{})
			if job != test.job || (err != nil) != test.fails {
				t.Errorf("job %q, %v", job, err)
			}
		})
	}
}

func TestWaitJob(t *testing.T) {
	job := func(state, more string) string { return `{"id":"job-1","state":"` + state + `"` + more + `}` }
	failed := job(
		"failed", `,"target":{"kind":"load-balancer","id":"lb-1"},"error":{"code":"capacity","detail":"no room"}`,
	)
	n := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		state := job("running", "")
		if n > 1 {
			state = failed
		}
		answer(200, asJSON, state)(w, r)
	})
	err := c.WaitJob(t.Context(), "job-1")
	if _, ok := errors.AsType[*cloudapi.JobError](err); !ok ||
		!strings.Contains(err.Error(), "lb-1: failed: capacity: no room") {
		t.Errorf("a job that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c = newClient(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, asJSON, job("running", ""))(w, r)
		cancel()
	})
	if err := c.WaitJob(ctx, "job-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller gives up: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	token := cloudapi.StaticToken("t")
	for name, o := range map[string]cloudapi.Options{
		"no endpoint":       {Token: token},
		"no scheme":         {Endpoint: "127.0.0.1:80", Token: token},
		"another scheme":    {Endpoint: "ftp://cloud", Token: token},
		"a path":            {Endpoint: "http://cloud/v1", Token: token},
		"a user":            {Endpoint: "http://u:p@cloud", Token: token},
		"no token's source": {Endpoint: "http://cloud"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cloudapi.New(o)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}
