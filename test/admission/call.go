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
	"strings"
	"testing"

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

// Call returns the response to a request about a resource, which need not have a UID, or else a StatusError.
func Call(
	ctx context.Context, t testing.TB, by webhook.Admitter, resource metav1.GroupVersionResource, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	t.Helper()
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "tested", Resource: resource, Admitter: by, Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
	})
	sent := *req
	sent.UID, sent.Resource = cmp.Or(req.UID, "tested"), resource
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &sent,
	})
	if err != nil {
		t.Fatal(err)
	}
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
	return review.Response, nil
}
