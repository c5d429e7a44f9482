package webhook_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/webhook"
)

// A request takes tens of microseconds, and the histogram distinguishes such durations.
func TestDurations(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := webhook.NewMetrics(registry)
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	var duration time.Duration
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "validate-service",
		Admitter: admitterFunc(func(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
			clock.SetTime(clock.Now().Add(duration))
			return allow(ctx, req)
		}).admitter(),
		Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock,
	})
	for _, duration = range []time.Duration{40 * time.Microsecond, 60 * time.Microsecond, 2 * time.Second} {
		handler.ServeHTTP(httptest.NewRecorder(), post(reviewBody))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[float64]uint64{}
	for _, family := range families {
		if family.GetName() != "quaymaster_webhook_request_duration_seconds" {
			continue
		}
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			counts[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
		}
	}
	for bound, want := range map[float64]uint64{50e-6: 1, 100e-6: 2, 1: 2, 2.5: 3} {
		if got, ok := counts[bound]; !ok || got != want {
			t.Errorf("%d requests within %gs, want %d", got, bound, want)
		}
	}
}

func TestFindingsAreCounted(t *testing.T) {
	f := newFixture(t, func(_ context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		return req.Respond([]finding.Finding{
			{ID: "dlb-sctp", Severity: finding.Error}, {ID: "dlb-sctp", Severity: finding.Error}, {ID: "not-bound", Severity: finding.Warning},
		}), nil
	}, 1)
	f.handler.ServeHTTP(httptest.NewRecorder(), post(reviewBody))
	const want = `# HELP quaymaster_webhook_findings_total Findings in admission requests by webhook, finding id (label rule) and severity.
# TYPE quaymaster_webhook_findings_total counter
quaymaster_webhook_findings_total{rule="dlb-sctp",severity="error",webhook="validate-service"} 2
quaymaster_webhook_findings_total{rule="not-bound",severity="warning",webhook="validate-service"} 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "quaymaster_webhook_findings_total"); err != nil {
		t.Error(err)
	}
}
