package stored

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNotAccepted(t *testing.T) {
	policy := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "shop", "name": "limits", "generation": int64(2)},
			"status":   map[string]any{"conditions": conditions},
		}}
	}
	condition := func(status string, generation int64) map[string]any {
		return map[string]any{"type": "Accepted", "status": status, "reason": "X", "message": "default breaks rule",
			"observedGeneration": generation}
	}
	for name, tc := range map[string]struct {
		policy *unstructured.Unstructured
		want   string
	}{
		"accepted":          {policy(condition("True", 2)), ""},
		"not accepted":      {policy(condition("False", 2)), "shop/limits: default breaks rule"},
		"changed since":     {policy(condition("True", 1)), "shop/limits: not checked by the controllers yet"},
		"without condition": {policy(), "shop/limits: not checked by the controllers yet"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notAccepted(tc.policy); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
