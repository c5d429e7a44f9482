package webhook_test

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
)

// A quantity of a few bytes must not occupy a processor for seconds.
func TestQuantitiesAreBounded(t *testing.T) {
	claims := persistentvolumeclaim.Options{Classes: storage{}, Volumes: storage{}}
	admitters := map[string]webhook.Admitter{
		"mutate-persistentvolume":        persistentvolume.NewMutator(persistentvolume.MutatorOptions{Labeler: storage{}}),
		"mutate-persistentvolumeclaim":   persistentvolumeclaim.NewMutator(claims),
		"validate-persistentvolumeclaim": persistentvolumeclaim.NewValidator(claims),
	}
	for name, admitter := range admitters {
		for _, quantity := range []string{`"1e-300000000"`, `1e300000000`, `"` + strings.Repeat("9", 4<<20) + `"`} {
			raw := runtime.RawExtension{Raw: []byte(`{"spec":{"capacity":{"storage":` + quantity + `},"resources":{"requests":{"storage":` + quantity + `}}}}`)}
			_, err := admitter.Admit(t.Context(), &admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: raw, OldObject: raw})
			if malformed, ok := errors.AsType[*webhook.MalformedError](err); !ok || !strings.Contains(malformed.Problem, "quantities") {
				t.Errorf("%s: %.20s: %v", name, quantity, err)
			}
		}
	}
	for _, ordinary := range []string{`{"storage":"10Gi"}`, `{"storage":"1e3"}`, `{"volumeHandle":"vol-03e12345"}`, `{"a":"2026-11-22T04:40:55Z"}`} {
		if err := webhook.CheckQuantities(&admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(ordinary)}}); err != nil {
			t.Errorf("%s: %v", ordinary, err)
		}
	}
}
