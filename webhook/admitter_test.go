package webhook_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/webhook"
)

// An object with thousands of old problems must not cause a response of megabytes, of which the API server shows only
// the start.
func TestWarningsAreBounded(t *testing.T) {
	f := newFixture(t, func(_ context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		return req.Respond(slices.Repeat(
			[]finding.Finding{{ID: "x", Severity: finding.Warning, Field: "spec", Message: strings.Repeat("m", 994)}}, 1000,
		)), nil
	}, 1)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, post(reviewBody))
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if warnings := got.Response.Warnings; len(warnings) != 5 || warnings[4] != "and 996 more" {
		t.Errorf("got %d warnings, the last is %q", len(warnings), warnings[len(warnings)-1])
	}
}
