package webhook_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/webhook"
)

// An object with thousands of old problems must not cause a response of megabytes, of which the API server shows only
// the start.
func TestWarningsAreBounded(t *testing.T) {
	got := webhook.Respond(&corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "web"}},
		slices.Repeat(
			[]finding.Finding{{ID: "x", Severity: finding.Warning, Field: "spec", Message: strings.Repeat("m", 994)}}, 1000,
		), nil)
	if n := len(got.Warnings); n != 5 || got.Warnings[4] != "and 996 more" {
		t.Errorf("got %d warnings, the last is %q", n, got.Warnings[n-1])
	}
}
