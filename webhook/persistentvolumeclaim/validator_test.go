package persistentvolumeclaim_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolumeclaim"
)

func newValidator(o persistentvolumeclaim.Options) webhook.Admitter {
	return persistentvolumeclaim.NewValidator(o)
}

func TestValidator(t *testing.T) {
	down := errors.New("connection refused")
	offline := func(c claim) claim { c.class = "offline"; return c }
	for name, tc := range map[string]expectation{
		"new":   {request: create(claim{size: "101Gi"})},
		"grows": {request: update(claim{}, claim{size: "20Gi"}), lookups: []string{"class fast", "type fast"}},
		"grows off the step": {
			request: update(claim{}, claim{size: "11Gi"}), audit: warnedBy("pvc-off-step"),
			lookups: []string{"class fast", "type fast"},
		},
		"grows over maximum": {
			request: update(claim{}, claim{size: "101Gi"}), denied: true, audit: deniedBy("pvc-over-maximum"),
			lookups: []string{"class fast", "type fast"},
		},
		"no such type": {
			request: update(claim{class: "unknown"}, claim{class: "unknown", size: "20Gi"}), audit: warnedBy("pvc-type-unknown"),
			lookups: []string{"class unknown", "type unknown"},
		},
		"default type": {
			request: update(claim{class: "untyped"}, claim{class: "untyped", size: "1Pi"}), lookups: []string{"class untyped"},
		},
		"other driver": {
			request: update(claim{class: "foreign"}, claim{class: "foreign", size: "1Pi"}), lookups: []string{"class foreign"},
		},
		"class deleted": {
			request: update(claim{class: "gone"}, claim{class: "gone", size: "1Pi"}), lookups: []string{"class gone"},
		},
		"without class":      {request: update(claim{class: "none"}, claim{class: "none", size: "1Pi"})},
		"reverts growth":     {request: update(claim{size: "200Gi"}, claim{size: "150Gi"})},
		"stays over maximum": {request: update(claim{size: "200Gi"}, claim{size: "200Gi"})},
		"being deleted":      {request: update(claim{}, claim{size: "101Gi", deletionTimestamp: "2026-01-02T03:04:05Z"})},
		"in use": {
			request: update(offline(claim{}), offline(claim{size: "20Gi"})), denied: true, audit: deniedBy("pvc-attached"),
			lookups: []string{"class offline", "type offline", "volume pv-1"},
		},
		"in use and over maximum": {
			request: update(
				offline(claim{}), offline(claim{size: "101Gi"}),
			), denied: true, audit: deniedBy("pvc-attached,pvc-over-maximum"),
			lookups: []string{"class offline", "type offline", "volume pv-1"},
		},
		"not in use": {
			request: update(offline(claim{volumeName: "pv-free"}), offline(claim{volumeName: "pv-free", size: "20Gi"})),
			lookups: []string{"class offline", "type offline", "volume pv-free"},
		},
		"volume of another driver": {
			request: update(offline(claim{volumeName: "pv-foreign"}), offline(claim{volumeName: "pv-foreign", size: "20Gi"})),
			lookups: []string{"class offline", "type offline", "volume pv-foreign"},
		},
		"no volume": {
			request: update(offline(claim{volumeName: "none"}), offline(claim{volumeName: "none", size: "20Gi"})),
			lookups: []string{"class offline", "type offline"},
		},
		"in use, same size in the cloud": {
			request: update(
				offline(claim{size: "1Gi"}), offline(claim{size: "10Gi"}),
			), lookups: []string{"class offline", "type offline"},
		},
		"class unavailable: the mutating webhook has already warned": {
			request: update(claim{}, claim{size: "101Gi"}), outage: map[string]error{"class": down},
			audit: map[string]string{"audited": "pvc-class-unavailable"}, lookups: []string{"class fast"},
		},
		"limits unknown": {
			request: update(claim{}, claim{size: "101Gi"}), outage: map[string]error{"type": down},
			audit: warnedBy("pvc-limits-unavailable"), lookups: []string{"class fast", "type fast"},
		},
		"invalid response of the cloud": {
			request: update(claim{class: "invalid"}, claim{class: "invalid", size: "20Gi"}),
			audit:   warnedBy("pvc-limits-unavailable"), lookups: []string{"class invalid", "type invalid"},
		},
		"cloud goes down between lookups": {
			request: update(
				offline(claim{}), offline(claim{size: "20Gi"}),
			), outage: map[string]error{"volume": context.DeadlineExceeded},
			audit: warnedBy("pvc-limits-unavailable"), lookups: []string{"class offline", "type offline", "volume pv-1"},
		},
		"known problems deny despite the outage": {
			request: update(
				offline(claim{}), offline(claim{size: "101Gi"}),
			), outage: map[string]error{"volume": down}, denied: true,
			audit:   map[string]string{"denied": "pvc-over-maximum", "warned": "pvc-limits-unavailable"},
			lookups: []string{"class offline", "type offline", "volume pv-1"},
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t, newValidator) })
	}
}

func TestValidatorDenies(t *testing.T) {
	f := &facts{}
	v := persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{Classes: f, Volumes: f})
	got, err := admit(t, v, update(claim{}, claim{size: "101Gi"}))
	if err != nil {
		t.Fatal(err)
	}
	const field = "spec.resources.requests[storage]"
	const cause = `Invalid value: "101Gi": must be at most 100Gi, the maximum of volume type "fast" of StorageClass ` +
		`"fast"; ` +
		"the claim has 10Gi; request less, or copy the data to a claim with a different StorageClass"
	want := &metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: `PersistentVolumeClaim "data" is invalid: ` + field + ": " + cause,
		Details: &metav1.StatusDetails{Kind: "PersistentVolumeClaim", Name: "data", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: cause},
		}},
	}
	if diff := cmp.Diff(want, got.Result); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// Without a cloud there are no limits and no lookups.
func TestValidatorWithoutCloud(t *testing.T) {
	f := &facts{}
	got, err := admit(t, persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{Classes: f}), update(claim{}, claim{size: "1Pi"}))
	if err != nil || !got.Allowed || got.Warnings != nil || f.lookups != nil {
		t.Errorf("got %+v, %v after lookups %v", got, err, f.lookups)
	}
}
