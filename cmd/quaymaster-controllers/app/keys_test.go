package app

import (
	"slices"
	"testing"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/dlb/record"
)

// Admission warns about keys of Quaymaster that it does not know.
func TestAdmissionKnowsTheKeysOfControllers(t *testing.T) {
	for _, key := range []string{
		record.AnnotationAbandon, service.AnnotationRecord, policy.AnnotationDefaulted, policy.AnnotationRefresh,
	} {
		if !slices.Contains(review.KnownKeys, key) {
			t.Errorf("admission does not know %s", key)
		}
	}
}
