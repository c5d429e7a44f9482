package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/observability"
	"quaymaster.dev/webhook"
)

// The log names objects and decisions but never contains what users write into objects, at any verbosity.
func TestLogsContainNoObjects(t *testing.T) {
	const secret = "hunter2"
	full := strings.NewReplacer(
		`"apiVersion":"v1"`, `"apiVersion":"v1","metadata":{"annotations":{"`+secret+`":"`+secret+`"}}`,
		`"futureField":1`, `"oldObject":{"spec":"`+secret+`"}`,
	).Replace(reviewBody)
	respond := func(response *admissionv1.AdmissionResponse, err error) admitterFunc {
		return func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
			return response, err
		}
	}
	patchType := admissionv1.PatchTypeJSONPatch
	tests := map[string]struct {
		admitter  admitterFunc
		body      string
		verbosity int
		message   string
	}{
		"allowed": {allow, full, 2, "Handled admission request"},
		"patched": {
			respond(
				&admissionv1.AdmissionResponse{Allowed: true, PatchType: &patchType, Patch: []byte(`[{"value":"` + secret + `"}]`)},
				nil,
			),
			full, 2, "Handled admission request",
		},
		"denied": {
			respond(&admissionv1.AdmissionResponse{
				Result: &metav1.Status{Code: 422, Message: secret}, Warnings: []string{secret},
				AuditAnnotations: map[string]string{"denied": "dlb-sctp"},
			}, nil), full, 0, "Handled admission request",
		},
		"error": {respond(nil, errors.New("cache is down")), full, 0, "Failed to handle admission request"},
		"panic": {
			func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error) {
				panic("boom")
			},
			full, 0, "Failed to handle admission request",
		},
		"truncated":      {allow, full[:len(full)-1], 0, "Failed to handle admission request"},
		"other resource": {allow, strings.Replace(full, `"services"`, `"pods"`, 1), 0, "Failed to handle admission request"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, verbosity := range []int{test.verbosity, 10} {
				log := logOf(t, test.admitter, test.body, verbosity)
				logged := strings.Contains(log, `"msg":"`+test.message+`"`) && strings.Contains(log, `"webhook":"validate-service"`)
				if !logged || strings.Contains(log, secret) {
					t.Errorf("log at verbosity %d:\n%s", verbosity, log)
				}
			}
			if test.verbosity > 0 {
				if log := logOf(t, test.admitter, test.body, test.verbosity-1); log != "" {
					t.Errorf("log at verbosity %d:\n%s", test.verbosity-1, log)
				}
			}
		})
	}
}

// logOf returns what one request logs.
func logOf(t *testing.T, admitter admitterFunc, body string, verbosity int) string {
	t.Helper()
	var out bytes.Buffer
	options := observability.LogOptions{Format: observability.FormatJSON, Verbosity: verbosity, Output: &out}
	logger, err := options.NewLogger()
	if err != nil {
		t.Fatal(err)
	}
	r := post(body)
	newFixture(t, admitter, 1).handler.ServeHTTP(
		httptest.NewRecorder(), r.WithContext(klog.NewContext(r.Context(), logger)),
	)
	return out.String()
}

// An error quotes what it cannot parse, which may be megabytes of the body.
func TestLongProblemsAreTruncated(t *testing.T) {
	for name, unit := range map[string]string{"ASCII": "x", "runes of several bytes": "é"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, allow, 1)
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, post(strings.Replace(reviewBody, "AdmissionReview", strings.Repeat(unit, 1<<20), 1)))
			const start = `body must have apiVersion "admission.k8s.io/v1" and kind "AdmissionReview"; got apiVersion ` +
				`"admission.k8s.io/v1" and kind "`
			text := w.Body.String()
			if w.Code != http.StatusBadRequest || len(text) > 600 || !strings.HasPrefix(text, start+unit) {
				t.Errorf("got %d and %d bytes: %.200s", w.Code, len(text), text)
			}
			if diff := cmp.Diff(unit+"…\n", text[len(text)-len(unit+"…\n"):]); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
		})
	}
}
