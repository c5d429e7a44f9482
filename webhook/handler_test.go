package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
)

const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",` +
	`"kind":{"group":"","version":"v1","kind":"Service"},"resource":{"group":"","version":"v1","resource":"services"},` +
	`"name":"web","namespace":"shop","operation":"CREATE","object":{},"futureField":1},"futureField":2}`

type admitterFunc func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

func (f admitterFunc) Admit(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return f(ctx, req)
}

func allow(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}

type fixture struct {
	handler  *webhook.Handler
	registry *prometheus.Registry
}

func newFixture(t testing.TB, admitter admitterFunc, limit int) fixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := webhook.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{registry: registry, handler: webhook.NewHandler(webhook.HandlerOptions{
		Name:     "validate-service",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "services"},
		Admitter: admitter,
		Limit:    webhook.NewLimit(limit),
		Metrics:  metrics,
		Clock:    clock.RealClock{},
	})}
}

// decided checks that the one call so far was counted as this decision.
func (f fixture) decided(t *testing.T, decision string) {
	t.Helper()
	want := "# HELP quaymaster_webhook_requests_total Admission calls by webhook and by how they ended.\n" +
		"# TYPE quaymaster_webhook_requests_total counter\n" +
		`quaymaster_webhook_requests_total{decision="` + decision + `",webhook="validate-service"} 1` + "\n"
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "quaymaster_webhook_requests_total"); err != nil {
		t.Error(err)
	}
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/validate-service?timeout=3s", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestVerdicts(t *testing.T) {
	patchType := admissionv1.PatchTypeJSONPatch
	tests := map[string]struct {
		response *admissionv1.AdmissionResponse
		decision string
	}{
		"allowed": {&admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"w"}}, "allowed"},
		"patched": {&admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`), PatchType: &patchType}, "patched"},
		"denied":  {&admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 422, Message: "no"}}, "denied"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked *admissionv1.AdmissionRequest
			f := newFixture(t, func(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				asked = req
				return test.response.DeepCopy(), nil
			}, 1)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(review))

			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("got %d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := admissionv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
				Response: test.response.DeepCopy(),
			}
			want.Response.UID = "u-1"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if asked.Name != "web" || asked.Namespace != "shop" || asked.Operation != admissionv1.Create {
				t.Errorf("admitter was asked about %+v", asked)
			}
			f.decided(t, test.decision)
		})
	}
}

func TestMalformedCalls(t *testing.T) {
	with := func(old, replacement string) *http.Request { return post(strings.Replace(review, old, replacement, 1)) }
	const tooLong = 7<<20 + 1
	tests := map[string]struct {
		request *http.Request
		status  int
		problem string
	}{
		"GET": {httptest.NewRequest(http.MethodGet, "/validate-service", nil), http.StatusMethodNotAllowed, "method must be POST"},
		"wrong content type": {
			func() *http.Request { r := post(review); r.Header.Set("Content-Type", "application/yaml"); return r }(),
			http.StatusUnsupportedMediaType, "content type must be application/json",
		},
		"no content type": {
			func() *http.Request { r := post(review); r.Header.Del("Content-Type"); return r }(),
			http.StatusUnsupportedMediaType, "content type must be application/json",
		},
		"empty": {post(""), http.StatusBadRequest, "body must be an AdmissionReview in JSON: it is empty"},
		"long":  {post(strings.Repeat(" ", tooLong)), http.StatusRequestEntityTooLarge, "body must not be longer than 7340032 bytes"},
		"long, unknown length": {
			func() *http.Request {
				r := post(strings.Repeat(" ", tooLong))
				r.ContentLength = -1
				return r
			}(), http.StatusRequestEntityTooLarge, "body must not be longer than 7340032 bytes",
		},
		"shorter than announced": {
			func() *http.Request { r := post(review); r.ContentLength = int64(len(review)) + 1; return r }(),
			http.StatusBadRequest, "read body: unexpected EOF",
		},
		"no JSON":           {post("apiVersion: v1"), http.StatusBadRequest, "body must be an AdmissionReview in JSON: invalid character 'a' looking for beginning of value"},
		"truncated":         {post(review[:40]), http.StatusBadRequest, "body must be an AdmissionReview in JSON: unexpected end of JSON input"},
		"two documents":     {post(review + review), http.StatusBadRequest, "body must be an AdmissionReview in JSON: invalid character '{' after top-level value"},
		"null":              {post("null"), http.StatusBadRequest, `body must be of apiVersion admission.k8s.io/v1, kind AdmissionReview; got apiVersion "", kind ""`},
		"request of a type": {post(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":7}`), http.StatusBadRequest, "body must be an AdmissionReview in JSON: json: cannot unmarshal number into Go struct field AdmissionReview.request of type v1.AdmissionRequest"},
		"v1beta1":           {with("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), http.StatusBadRequest, `body must be of apiVersion admission.k8s.io/v1, kind AdmissionReview; got apiVersion "admission.k8s.io/v1beta1", kind "AdmissionReview"`},
		"other kind":        {with(`"AdmissionReview"`, `"TokenReview"`), http.StatusBadRequest, `body must be of apiVersion admission.k8s.io/v1, kind AdmissionReview; got apiVersion "admission.k8s.io/v1", kind "TokenReview"`},
		"no request":        {with(`"request"`, `"Request"`), http.StatusBadRequest, "request is missing"},
		"no uid":            {with(`"u-1"`, `""`), http.StatusBadRequest, "request.uid is missing"},
		"other resource":    {with(`"resource":"services"`, `"resource":"pods"`), http.StatusBadRequest, "request.resource must be services.v1 on this path; got pods.v1"},
		"other group":       {with(`"resource":{"group":""`, `"resource":{"group":"x.io"`), http.StatusBadRequest, "request.resource must be services.v1 on this path; got services.v1.x.io"},
		"subresource":       {with(`"name":"web"`, `"subResource":"status"`), http.StatusBadRequest, "request.resource must be services.v1 on this path; got services.v1/status"},
		"other operation":   {with(`"CREATE"`, `"CONNECT"`), http.StatusBadRequest, `request.operation must be CREATE, UPDATE or DELETE; got "CONNECT"`},
		"bad timeout": {
			func() *http.Request { r := post(review); r.URL.RawQuery = "timeout=soon"; return r }(),
			http.StatusBadRequest, `query parameter timeout must be a positive duration such as 3s; got "soon"`,
		},
		"negative timeout": {
			func() *http.Request { r := post(review); r.URL.RawQuery = "timeout=-3s"; return r }(),
			http.StatusBadRequest, `query parameter timeout must be a positive duration such as 3s; got "-3s"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				t.Error("admitter was asked")
				return nil, errors.New("asked")
			}, 1)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, test.request)
			wantFailure(t, w, test.status, test.problem)
			f.decided(t, "malformed")
		})
	}
}

func TestContentTypeMayNameACharset(t *testing.T) {
	r := post(review)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	w := httptest.NewRecorder()
	newFixture(t, allow, 1).handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

func TestFailures(t *testing.T) {
	tests := map[string]struct {
		admitter admitterFunc
		query    string
		status   int
		problem  string
		decision string
	}{
		"error": {
			admitter: func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				return nil, errors.New("password of the cache is hunter2")
			},
			status: http.StatusInternalServerError, problem: "the webhook failed; its log says why", decision: "failed",
		},
		"panic": {
			admitter: func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				panic("boom")
			},
			status: http.StatusInternalServerError, problem: "the webhook failed; its log says why", decision: "failed",
		},
		"no response": {
			admitter: func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				return nil, nil
			},
			status: http.StatusInternalServerError, problem: "the webhook failed; its log says why", decision: "failed",
		},
		"malformed object": {
			admitter: func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				return nil, &webhook.MalformedError{Problem: "request.object is missing"}
			},
			status: http.StatusBadRequest, problem: "request.object is missing", decision: "malformed",
		},
		"timeout": {
			admitter: func(ctx context.Context, _ *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			query:  "timeout=1ms",
			status: http.StatusGatewayTimeout, problem: "no verdict within the webhook's timeout", decision: "timeout",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.admitter, 1)
			r := post(review)
			if test.query != "" {
				r.URL.RawQuery = test.query
			}
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			wantFailure(t, w, test.status, test.problem)
			f.decided(t, test.decision)

			// The place under the limit of 1 is free again.
			w = httptest.NewRecorder()
			f.handler.ServeHTTP(w, post("{"))
			if w.Code == http.StatusTooManyRequests {
				t.Error("the failed call still counts")
			}
		})
	}
}

// A caller that leaves gets no verdict, which is nobody's failure.
func TestCallerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	f := newFixture(t, func(ctx context.Context, _ *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		leave()
		return nil, ctx.Err()
	}, 1)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, post(review).WithContext(ctx))
	wantFailure(t, w, http.StatusServiceUnavailable, "the call was canceled")
	f.decided(t, "timeout")
}

func TestDeadlineOfReviewers(t *testing.T) {
	tests := map[string]struct {
		query string
		want  time.Duration
	}{
		"as asked, with time left to answer": {"timeout=3s", 2700 * time.Millisecond},
		"none":                               {"", 9 * time.Second},
		"longer than any API server asks":    {"timeout=1h", 27 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			f := newFixture(t, func(ctx context.Context, _ *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				deadline, ok := ctx.Deadline()
				if left := deadline.Sub(start); !ok || left < test.want || left > test.want+time.Second {
					t.Errorf("deadline in %s, want %s", left, test.want)
				}
				return &admissionv1.AdmissionResponse{Allowed: true}, nil
			}, 1)
			r := post(review)
			r.URL.RawQuery = test.query
			f.handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

func TestOverload(t *testing.T) {
	const limit = 2
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		entered <- struct{}{}
		<-leave
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}, limit)
	done := make(chan int, limit)
	for range limit {
		go func() {
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(review))
			done <- w.Code
		}()
		<-entered
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, post(review))
	wantFailure(t, w, http.StatusTooManyRequests, "too many admission calls at the same time; try again")
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q", got)
	}
	f.decided(t, "overloaded")
	close(leave)
	for range limit {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a call that was let in got %d", code)
		}
	}
}

// The memory of a burst of the largest bodies is bounded, whatever the number of calls allowed.
func TestOverloadByBytes(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		entered <- struct{}{}
		<-leave
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}, 1000)
	large := review + strings.Repeat(" ", 7<<20-len(review))
	done := make(chan int, 2)
	call := func(body string) {
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, post(body))
		done <- w.Code
	}
	go call(large)
	<-entered
	call(large)
	if code := <-done; code != http.StatusTooManyRequests {
		t.Errorf("a second large body got %d", code)
	}
	go call(review)
	<-entered
	close(leave)
	for range 2 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a call that was let in got %d", code)
		}
	}
}

// A caller that announces a body and never sends it loses its place under the limit, and only this connection.
func TestStalledBody(t *testing.T) {
	f := newFixture(t, allow, 1)
	server := httptest.NewServer(f.handler)
	defer server.Close()
	body, stalled := io.Pipe()
	defer stalled.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"?timeout=50ms", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(review))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusRequestTimeout || string(text) != "body did not arrive within the timeout\n" {
		t.Errorf("got %d %q", response.StatusCode, text)
	}
	again, err := http.Post(server.URL, "application/json", strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if again.StatusCode != http.StatusOK {
		t.Errorf("the next call got %d", again.StatusCode)
	}
}

// wantFailure checks that the answer is one line of text that no API server takes for a verdict.
func wantFailure(t *testing.T, w *httptest.ResponseRecorder, status int, problem string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status is %d, want %d", w.Code, status)
	}
	if diff := cmp.Diff(problem+"\n", w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("content type is %q", got)
	}
	if got := w.Header().Get("Allow"); (got == http.MethodPost) != (status == http.StatusMethodNotAllowed) {
		t.Errorf("Allow is %q", got)
	}
	if length := w.Header().Get("Content-Length"); length != "" && length != strconv.Itoa(w.Body.Len()) {
		t.Errorf("Content-Length is %s of %d", length, w.Body.Len())
	}
}
