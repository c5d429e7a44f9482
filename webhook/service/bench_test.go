package service_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/observability"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

// The benchmarks measure one call, from the body to the response, without HTTP: the creation of a Service with two
// ports and six annotations.

func BenchmarkValidateGood(b *testing.B) { benchmark(b, validator(nil), goodAnnotations) }

func BenchmarkValidateBad(b *testing.B) { benchmark(b, validator(nil), twoMistakes) }

func BenchmarkMutate(b *testing.B) { benchmark(b, mutator(nil), goodAnnotations) }

const goodAnnotations = `{"` + prefix + `listener-maxconn":"5000","` + prefix + `health-check-interval":"10s","` +
	prefix + `health-check-timeout":"3s","` + prefix + `listener-protocol.http":"http","` + prefix + `ingress-group":"edge","team":"a"}`

func benchmark(b *testing.B, admitter webhook.Admitter, annotations string) {
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "benchmark", Resource: service.Resource(), Admitter: admitter,
		Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
	})
	body := reviewOf(b, create(manifest{name: "web", annotations: annotations}))
	logger, _, err := observability.NewLogger(observability.LogOptions{Format: observability.FormatJSON, Output: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequestWithContext(klog.NewContext(b.Context(), logger), http.MethodPost, "/?timeout=3s", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	reader := bytes.NewReader(body)
	w := &writer{header: http.Header{}}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		handler.ServeHTTP(w, r)
	}
	if w.status != 0 {
		b.Fatalf("got status %d", w.status)
	}
}

func reviewOf(b *testing.B, req *admissionv1.AdmissionRequest) []byte {
	req.UID = "0df28fbd-5f5f-11e8-bc74-36e6bb280816"
	req.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "Service"}
	req.Resource = service.Resource()
	req.RequestKind, req.RequestResource = &req.Kind, &req.Resource
	req.Name, req.Namespace = "web", "shop"
	req.UserInfo = authenticationv1.UserInfo{Username: "developer", Groups: []string{"developers", "system:authenticated"}}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// writer discards the response and records a status other than 200.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(p []byte) (int, error) { return len(p), nil }
func (w *writer) WriteHeader(status int)      { w.status = status }
