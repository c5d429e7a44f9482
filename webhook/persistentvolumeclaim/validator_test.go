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
		"new":                 {request: create(claim{size: "101Gi"})},
		"grows":               {request: update(claim{}, claim{size: "20Gi"}), asked: []string{"class fast", "type fast"}},
		"grows off the step":  {request: update(claim{}, claim{size: "11Gi"}), audit: warned("pvc-off-step"), asked: []string{"class fast", "type fast"}},
		"grows beyond":        {request: update(claim{}, claim{size: "101Gi"}), refused: true, audit: denied("pvc-over-maximum"), asked: []string{"class fast", "type fast"}},
		"no such type":        {request: update(claim{class: "unknown"}, claim{class: "unknown", size: "20Gi"}), audit: warned("pvc-type-unknown"), asked: []string{"class unknown", "type unknown"}},
		"default type":        {request: update(claim{class: "untyped"}, claim{class: "untyped", size: "1Pi"}), asked: []string{"class untyped"}},
		"other driver":        {request: update(claim{class: "foreign"}, claim{class: "foreign", size: "1Pi"}), asked: []string{"class foreign"}},
		"class is no more":    {request: update(claim{class: "gone"}, claim{class: "gone", size: "1Pi"}), asked: []string{"class gone"}},
		"without class":       {request: update(claim{class: "none"}, claim{class: "none", size: "1Pi"})},
		"takes back a growth": {request: update(claim{size: "200Gi"}, claim{size: "150Gi"})},
		"stays beyond":        {request: update(claim{size: "200Gi"}, claim{size: "200Gi"})},
		"being deleted":       {request: update(claim{}, claim{size: "101Gi", deletionTimestamp: "2026-01-02T03:04:05Z"})},
		"in use": {
			request: update(offline(claim{}), offline(claim{size: "20Gi"})), refused: true, audit: denied("pvc-attached"),
			asked: []string{"class offline", "type offline", "volume pv-1"},
		},
		"in use and beyond": {
			request: update(offline(claim{}), offline(claim{size: "101Gi"})), refused: true, audit: denied("pvc-attached,pvc-over-maximum"),
			asked: []string{"class offline", "type offline", "volume pv-1"},
		},
		"not in use": {
			request: update(offline(claim{volumeName: "pv-free"}), offline(claim{volumeName: "pv-free", size: "20Gi"})),
			asked:   []string{"class offline", "type offline", "volume pv-free"},
		},
		"volume of somebody else": {
			request: update(offline(claim{volumeName: "pv-foreign"}), offline(claim{volumeName: "pv-foreign", size: "20Gi"})),
			asked:   []string{"class offline", "type offline", "volume pv-foreign"},
		},
		"no volume": {
			request: update(offline(claim{volumeName: "none"}), offline(claim{volumeName: "none", size: "20Gi"})),
			asked:   []string{"class offline", "type offline"},
		},
		"in use, same size to the cloud": {
			request: update(offline(claim{size: "1Gi"}), offline(claim{size: "10Gi"})), asked: []string{"class offline", "type offline"},
		},
		"class not known: the mutating webhook has said so": {
			request: update(claim{}, claim{size: "101Gi"}), outage: map[string]error{"class": down},
			audit: map[string]string{"audited": "pvc-class-unavailable"}, asked: []string{"class fast"},
		},
		"cloud is down": {
			request: update(claim{}, claim{size: "101Gi"}), outage: map[string]error{"type": down},
			audit: warned("pvc-limits-unavailable"), asked: []string{"class fast", "type fast"},
		},
		"cloud does not answer": {
			request: update(claim{}, claim{size: "101Gi"}), outage: map[string]error{"type": context.DeadlineExceeded},
			audit: warned("pvc-limits-unavailable"), asked: []string{"class fast", "type fast"},
		},
		"cloud talks nonsense": {
			request: update(claim{class: "senseless"}, claim{class: "senseless", size: "20Gi"}),
			audit:   warned("pvc-limits-unavailable"), asked: []string{"class senseless", "type senseless"},
		},
		"cloud goes down in between": {
			request: update(offline(claim{}), offline(claim{size: "20Gi"})), outage: map[string]error{"volume": context.DeadlineExceeded},
			audit: warned("pvc-limits-unavailable"), asked: []string{"class offline", "type offline", "volume pv-1"},
		},
		"what is certain refuses all the same": {
			request: update(offline(claim{}), offline(claim{size: "101Gi"})), outage: map[string]error{"volume": down}, refused: true,
			audit: map[string]string{"denied": "pvc-over-maximum", "warned": "pvc-limits-unavailable"},
			asked: []string{"class offline", "type offline", "volume pv-1"},
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t, newValidator) })
	}
}

func TestValidatorRefuses(t *testing.T) {
	f := &facts{}
	v := persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{Classes: f, Volumes: f})
	got, err := v.Admit(t.Context(), update(claim{}, claim{size: "101Gi"}))
	if err != nil {
		t.Fatal(err)
	}
	const field = "spec.resources.requests[storage]"
	const cause = `Invalid value: "101Gi": must be at most 100Gi, the maximum of volume type fast (parameter type of StorageClass fast); ` +
		"the claim has 10Gi; request less, or move the data to a claim of another StorageClass"
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

// Without a cloud there are no limits, and nothing is asked.
func TestValidatorWithoutCloud(t *testing.T) {
	f := &facts{}
	got, err := persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{Classes: f}).Admit(t.Context(), update(claim{}, claim{size: "1Pi"}))
	if err != nil || !got.Allowed || got.Warnings != nil || f.asked != nil {
		t.Errorf("got %+v, %v after asking %v", got, err, f.asked)
	}
}
