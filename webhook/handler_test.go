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
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

const reviewBody = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",` +
	`"kind":{"group":"","version":"v1","kind":"Service"},"resource":{"group":"","version":"v1","resource":"services"},` +
	`"name":"web","namespace":"shop","operation":"CREATE","object":{"apiVersion":"v1","kind":"Service"},"futureField":1},"futureField":2}`

type admitterFunc func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error)

// admitter returns an Admitter of Services.
func (f admitterFunc) admitter() webhook.Admitter {
	a := service.NewMutator(service.Options{})
	a.Admit = f
	return a
}

func allow(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}

type fixture struct {
	handler  *webhook.Handler
	registry *prometheus.Registry
}

// The validating webhook of Services is also called for their status.
func TestSubresource(t *testing.T) {
	body := strings.Replace(reviewBody, `"name":"web"`, `"subResource":"status"`, 1)
	for subresource, want := range map[string]int{"status": http.StatusOK, "": http.StatusBadRequest, "scale": http.StatusBadRequest} {
		f := newFixture(t, func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
			return webhook.Allow(), nil
		}, 1, func(o *webhook.HandlerOptions) { o.Subresource = subresource })
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, post(body)); w.Code != want {
			t.Errorf("subresource %q served: status %d, want %d", subresource, w.Code, want)
		}
	}
}

func newFixture(t testing.TB, admitter admitterFunc, limit int, options ...func(*webhook.HandlerOptions)) fixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics := webhook.NewMetrics(registry)
	o := webhook.HandlerOptions{
		Name:     "validate-service",
		Admitter: admitter.admitter(),
		Limit:    webhook.NewLimit(limit),
		Metrics:  metrics,
		Clock:    clock.RealClock{},
	}
	for _, option := range options {
		option(&o)
	}
	return fixture{registry: registry, handler: webhook.NewHandler(o)}
}

// wantDecision checks that the only request so far was counted with this decision.
func (f fixture) wantDecision(t *testing.T, decision string) {
	t.Helper()
	want := "# HELP quaymaster_webhook_requests_total Admission requests by webhook and decision.\n" +
		"# TYPE quaymaster_webhook_requests_total counter\n" +
		`quaymaster_webhook_requests_total{decision="` + decision + `",webhook="validate-service"} 1` + "\n"
	if err := testutil.GatherAndCompare(
		f.registry, strings.NewReader(want), "quaymaster_webhook_requests_total",
	); err != nil {
		t.Error(err)
	}
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/validate-service?timeout=3s", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestDecisions(t *testing.T) {
	patchType := admissionv1.PatchTypeJSONPatch
	tests := map[string]struct {
		response *admissionv1.AdmissionResponse
		decision string
	}{
		"plain":   {&admissionv1.AdmissionResponse{Allowed: true}, "allowed"},
		"allowed": {&admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"w"}}, "allowed"},
		"patched": {&admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`), PatchType: &patchType}, "patched"},
		"denied":  {&admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 422, Message: "no"}}, "denied"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var received *webhook.Request
			f := newFixture(t, func(_ context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				received = req
				return test.response.DeepCopy(), nil
			}, 1)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(reviewBody))

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
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if received.Namespace != "shop" || received.Old != nil || received.New == nil {
				t.Errorf("Admitter received %+v", received)
			}
			f.wantDecision(t, test.decision)
		})
	}
}

func TestMalformedRequests(t *testing.T) {
	with := func(old, replacement string) *http.Request {
		return post(strings.Replace(reviewBody, old, replacement, 1))
	}
	const tooLong = 32<<20 + 1
	tests := map[string]struct {
		request *http.Request
		status  int
		problem string
	}{
		"GET": {
			httptest.NewRequest(http.MethodGet, "/validate-service", nil), http.StatusMethodNotAllowed, "method must be POST",
		},
		"wrong content type": {
			func() *http.Request {
				r := post(reviewBody)
				r.Header.Set("Content-Type", "application/yaml")
				return r
			}(),
			http.StatusUnsupportedMediaType, "content type must be application/json",
		},
		"no content type": {
			func() *http.Request { r := post(reviewBody); r.Header.Del("Content-Type"); return r }(),
			http.StatusUnsupportedMediaType, "content type must be application/json",
		},
		"empty": {post(""), http.StatusBadRequest, "body must be an AdmissionReview in JSON: body is empty"},
		"long":  {post(strings.Repeat(" ", tooLong)), http.StatusRequestEntityTooLarge, "body must be at most 33554432 bytes"},
		"long, unknown length": {
			func() *http.Request {
				r := post(strings.Repeat(" ", tooLong))
				r.ContentLength = -1
				return r
			}(), http.StatusRequestEntityTooLarge, "body must be at most 33554432 bytes",
		},
		"shorter than announced": {
			func() *http.Request {
				r := post("")
				r.ContentLength = int64(len(reviewBody)) + 1
				r.Body = io.NopCloser(io.MultiReader(strings.NewReader(reviewBody), iotest.ErrReader(io.ErrUnexpectedEOF)))
				return r
			}(),
			http.StatusBadRequest, "body must be an AdmissionReview in JSON: unexpected EOF",
		},
		"not JSON": {
			post("apiVersion: v1"), http.StatusBadRequest,
			"body must be an AdmissionReview in JSON: jsontext: invalid character 'a' at start of value",
		},
		"truncated": {
			post(reviewBody[:40]), http.StatusBadRequest, "body must be an AdmissionReview in JSON: jsontext: unexpected EOF after offset 40",
		},
		"two documents": {
			post(reviewBody + reviewBody), http.StatusBadRequest,
			"body must be an AdmissionReview in JSON: nothing may follow the first value",
		},
		"null": {
			post("null"), http.StatusBadRequest,
			`body must have apiVersion "admission.k8s.io/v1" and kind "AdmissionReview"; got apiVersion "" and kind ""`,
		},
		"wrong type": {
			post(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":7}`), http.StatusBadRequest,
			"body must be an AdmissionReview in JSON: /request must be an object",
		},
		"v1beta1": {
			with("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), http.StatusBadRequest,
			`body must have apiVersion "admission.k8s.io/v1" and kind "AdmissionReview"; got apiVersion ` +
				`"admission.k8s.io/v1beta1" and kind "AdmissionReview"`,
		},
		"other kind": {
			with(`"AdmissionReview"`, `"TokenReview"`), http.StatusBadRequest,
			`body must have apiVersion "admission.k8s.io/v1" and kind "AdmissionReview"; got apiVersion ` +
				`"admission.k8s.io/v1" and kind "TokenReview"`,
		},
		"no request": {with(`"request"`, `"Request"`), http.StatusBadRequest, "request is missing"},
		"no uid":     {with(`"u-1"`, `""`), http.StatusBadRequest, "request.uid is missing"},
		"other resource": {
			with(`"resource":"services"`, `"resource":"pods"`), http.StatusBadRequest,
			"request.resource must be services.v1 on this path; got pods.v1",
		},
		"other group": {
			with(`"resource":{"group":""`, `"resource":{"group":"x.io"`), http.StatusBadRequest,
			"request.resource must be services.v1 on this path; got services.v1.x.io",
		},
		"subresource": {
			with(`"name":"web"`, `"subResource":"status"`), http.StatusBadRequest,
			"request.resource must be services.v1 on this path; got services.v1/status",
		},
		"other operation": {
			with(`"CREATE"`, `"CONNECT"`), http.StatusBadRequest,
			`request.operation must be CREATE, UPDATE or DELETE; got "CONNECT"`,
		},
		"bad timeout": {
			func() *http.Request { r := post(reviewBody); r.URL.RawQuery = "timeout=soon"; return r }(),
			http.StatusBadRequest, `query parameter timeout must be a positive duration such as 3s; got "soon"`,
		},
		"negative timeout": {
			func() *http.Request { r := post(reviewBody); r.URL.RawQuery = "timeout=-3s"; return r }(),
			http.StatusBadRequest, `query parameter timeout must be a positive duration such as 3s; got "-3s"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				t.Error("Admitter was called")
				return nil, errors.New("called")
			}, 1)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, test.request)
			wantFailure(t, w, test.status, test.problem)
			f.wantDecision(t, "malformed")
		})
	}
}

func TestContentTypeWithCharset(t *testing.T) {
	r := post(reviewBody)
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
			admitter: func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				return nil, errors.New("password of the cache is hunter2")
			},
			status: http.StatusInternalServerError, problem: "internal error; see the webhook's log", decision: "failed",
		},
		"panic": {
			admitter: func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				panic("boom")
			},
			status: http.StatusInternalServerError, problem: "internal error; see the webhook's log", decision: "failed",
		},
		"no response": {
			admitter: func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				return nil, nil
			},
			status: http.StatusInternalServerError, problem: "internal error; see the webhook's log", decision: "failed",
		},
		"timeout": {
			admitter: func(ctx context.Context, _ *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			query:  "timeout=1ms",
			status: http.StatusGatewayTimeout, problem: "no decision within the webhook's timeout", decision: "timeout",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.admitter, 1)
			r := post(reviewBody)
			if test.query != "" {
				r.URL.RawQuery = test.query
			}
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			wantFailure(t, w, test.status, test.problem)
			f.wantDecision(t, test.decision)

			// The only slot of the limit is free again.
			w = httptest.NewRecorder()
			f.handler.ServeHTTP(w, post("{"))
			if w.Code == http.StatusServiceUnavailable {
				t.Error("the failed request still counts")
			}
		})
	}
}

// A caller that disconnects gets no decision, which counts as a timeout and not as a failure.
func TestCallerDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	f := newFixture(t, func(ctx context.Context, _ *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		disconnect()
		return nil, ctx.Err()
	}, 1)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, post(reviewBody).WithContext(ctx))
	wantFailure(t, w, http.StatusServiceUnavailable, "request canceled by the caller")
	f.wantDecision(t, "timeout")
}

func TestDeadlineOfAdmitter(t *testing.T) {
	tests := map[string]struct {
		query string
		want  time.Duration
	}{
		"as requested, with time left to respond": {"timeout=3s", 2700 * time.Millisecond},
		"as requested, after another parameter":   {"a=b&timeout=3s", 2700 * time.Millisecond},
		"none":                                    {"", 4500 * time.Millisecond},
		"longer than configured":                  {"timeout=30s", 4500 * time.Millisecond},
		"longer than configured, late":            {"a=b&timeout=30s", 4500 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			f := newFixture(t, func(ctx context.Context, _ *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				deadline, ok := ctx.Deadline()
				if left := deadline.Sub(start); !ok || left < test.want || left > test.want+time.Second {
					t.Errorf("deadline in %s, want %s", left, test.want)
				}
				return &admissionv1.AdmissionResponse{Allowed: true}, nil
			}, 1, func(o *webhook.HandlerOptions) { o.Timeout = 5 * time.Second })
			r := post(reviewBody)
			r.URL.RawQuery = test.query
			f.handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// wantFailure checks that the response is one line of text that no API server takes for a decision.
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
