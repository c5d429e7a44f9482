package service_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/observability"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

func BenchmarkRealValidate(b *testing.B) { realReview(b, validator(nil), "../testdata/service-create.json") }
func BenchmarkRealUpdate(b *testing.B)   { realReview(b, validator(nil), "../testdata/service-update.json") }
func BenchmarkRealMutate(b *testing.B)   { realReview(b, mutator(nil), "../testdata/service-create.json") }

func realReview(b *testing.B, admitter webhook.Admitter, file string) {
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "benchmark", Resource: service.Resource(), Admitter: admitter,
		Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
	})
	body, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
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
