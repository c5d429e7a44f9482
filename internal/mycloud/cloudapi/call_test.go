package cloudapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"quaymaster.dev/internal/mycloud/cloudapi"
)

// watched returns a client of a server whose responses the test chooses, and the calls that the client reports.
func watched(t *testing.T, h http.HandlerFunc, o cloudapi.Options) (client *cloudapi.Client, calls *[]cloudapi.Call) {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	calls = &[]cloudapi.Call{}
	o.Endpoint, o.OnCall = ts.URL, func(c cloudapi.Call) { *calls = append(*calls, c) }
	client, err := cloudapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return client, calls
}

func compareCalls(t *testing.T, want, got []cloudapi.Call) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(cloudapi.Call{}, "Duration")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// silent does not respond until the client has given up.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestCallsByHowTheyEnd(t *testing.T) {
	const long = time.Minute
	limited := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 20*time.Millisecond)
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	read := func(ctx context.Context, c *cloudapi.Client) error {
		_, err := c.Instance(ctx, "i-1")
		return err
	}
	hold := func(ctx context.Context, c *cloudapi.Client) error {
		_, err := c.Job(ctx, "i-1", long)
		return err
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		timeout time.Duration
		bound   func(context.Context) (context.Context, context.CancelFunc)
		call    func(context.Context, *cloudapi.Client) error
		want    string
	}{
		"success":                 {handler: answer(200, asJSON, `{"id":"i-1"}`), want: "200"},
		"not modified":            {handler: answer(304, "", ""), want: "304"},
		"the cloud's 404":         {handler: answer(404, asProblem, `{"code":"resource-not-found"}`), want: "404"},
		"a proxy's 503":           {handler: answer(503, asHTML, "<h1>Sorry</h1>"), want: "503"},
		"redirect":                {handler: answer(302, asHTML, "", "Location", "/"), want: "302"},
		"200 in HTML":             {handler: answer(200, asHTML, "<h1>Welcome</h1>"), want: cloudapi.CallInvalidResponse},
		"half an object":          {handler: answer(200, asJSON, `{"id":`), want: cloudapi.CallInvalidResponse},
		"cut short":               {handler: answer(200, asJSON, `{"id":"i-1"}`, "Content-Length", "1000"), want: cloudapi.CallConnection},
		"connection reset":        {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: cloudapi.CallConnection},
		"no answer":               {handler: silent, timeout: 20 * time.Millisecond, want: cloudapi.CallTimeout},
		"too late for the caller": {handler: silent, bound: limited, want: cloudapi.CallTimeout},
		"half an answer": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				answer(200, asJSON, `{"id":`)(w, r)
				_ = http.NewResponseController(w).Flush()
				silent(w, r)
			},
			timeout: 20 * time.Millisecond, want: cloudapi.CallTimeout,
		},
		"canceled":           {handler: silent, bound: canceled, want: cloudapi.CallCanceled},
		"kept back as asked": {handler: silent, bound: limited, call: hold, want: cloudapi.CallCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			client, calls := watched(t, test.handler, cloudapi.Options{
				Token: cloudapi.StaticToken("t"), Timeout: test.timeout,
			})
			ctx, call, operation := t.Context(), read, "GET instances/{id}"
			if test.bound != nil {
				bound, cancel := test.bound(ctx)
				defer cancel()
				ctx = bound
			}
			if test.call != nil {
				call, operation = test.call, "GET jobs/{id}"
			}
			err := call(ctx, client)
			if (err == nil) != (test.want == "200") {
				t.Errorf("error %v", err)
			}
			compareCalls(t, []cloudapi.Call{{Operation: operation, Code: test.want}}, *calls)
			if took := (*calls)[0].Duration; took <= 0 || took < test.timeout {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A token that was replaced costs two requests, and both are reported.
func TestCallsWithAStaleToken(t *testing.T) {
	tokens := []string{"old", "new"}
	next := func() (string, error) {
		token := tokens[0]
		tokens = tokens[1:]
		return token, nil
	}
	client, calls := watched(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			answer(401, asProblem, `{"code":"unauthenticated"}`)(w, r)
			return
		}
		answer(200, asJSON, `{"id":"a/b"}`)(w, r)
	}, cloudapi.Options{Token: next})
	if _, err := client.StopInstance(t.Context(), "a/b", cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	compareCalls(t, []cloudapi.Call{
		{Operation: "POST instances/{id}:stop", Code: "401"}, {Operation: "POST instances/{id}:stop", Code: "200"},
	}, *calls)
}
