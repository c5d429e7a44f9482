// Package admission calls Admitters in tests as an API server does: with an AdmissionReview, through a Handler.
package admission

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/webhook"
)

// StatusError is a response without a decision.
type StatusError struct {
	Status  int
	Problem string
}

func (f *StatusError) Error() string { return fmt.Sprintf("status %d: %s", f.Status, f.Problem) }

// Call returns the response to a request, which need not have a UID or a resource, or else a StatusError. The findings that
// the metrics count must be those of the response.
func Call(
	ctx context.Context, t testing.TB, by webhook.Admitter, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics := webhook.NewMetrics(registry)
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "tested", Admitter: by, Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
	})
	sent := *req
	sent.UID, sent.Resource = cmp.Or(req.UID, "tested"), metav1.GroupVersionResource(by.Resource)
	body := Encode(t, &sent)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		return nil, &StatusError{Status: w.Code, Problem: strings.TrimSpace(w.Body.String())}
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), review); err != nil {
		t.Fatal(err)
	}
	if review.Response.UID != sent.UID {
		t.Errorf("the response is to request %q", review.Response.UID)
	}
	review.Response.UID = req.UID
	audited := map[string]string{
		"error": review.Response.AuditAnnotations["denied"], "warning": review.Response.AuditAnnotations["warned"],
		"audit": review.Response.AuditAnnotations["audited"],
	}
	for severity, ids := range counted(t, registry) {
		if slices.Sort(ids); strings.Join(ids, ",") != audited[severity] {
			t.Errorf("counted findings %q of severity %s, but the response has %q", ids, severity, audited[severity])
		}
		delete(audited, severity)
	}
	for severity, ids := range audited {
		if ids != "" {
			t.Errorf("findings %s of severity %s were not counted", ids, severity)
		}
	}
	return review.Response, nil
}

// Encode returns the AdmissionReview with a request.
func Encode(t testing.TB, req *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	review := &admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Apply returns an object to which a JSON patch is applied.
func Apply(t testing.TB, object, patch []byte) []byte {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := decoded.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}

// counted returns the ids of the findings that were counted, by severity.
func counted(t testing.TB, registry *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, family := range families {
		if family.GetName() != "quaymaster_webhook_findings_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			all[labels["severity"]] = append(all[labels["severity"]], labels["rule"])
		}
	}
	return all
}
