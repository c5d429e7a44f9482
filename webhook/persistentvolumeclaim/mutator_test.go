package persistentvolumeclaim_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolumeclaim"
)

func newMutator(o persistentvolumeclaim.Options) webhook.Admitter {
	return persistentvolumeclaim.NewMutator(o)
}

func TestMutator(t *testing.T) {
	down := errors.New("connection refused")
	for name, tc := range map[string]expectation{
		"new, can grow": {request: create(claim{}), lookups: []string{"class fast", "type fast"}},
		"new, cannot grow": {
			request: create(claim{class: "fixed"}), audit: warnedBy("pvc-cannot-grow-later"),
			lookups: []string{"class fixed", "type fixed"},
		},
		"new, over maximum": {
			request: create(claim{size: "101Gi"}), audit: warnedBy("pvc-created-over-maximum"),
			lookups: []string{"class fast", "type fast"},
		},
		"new, no such type": {
			request: create(claim{class: "unknown"}), audit: warnedBy("pvc-type-unknown"),
			lookups: []string{"class unknown", "type unknown"},
		},
		"new, default type":  {request: create(claim{class: "untyped", size: "1Pi"}), lookups: []string{"class untyped"}},
		"new, other driver":  {request: create(claim{class: "foreign", size: "1Pi"}), lookups: []string{"class foreign"}},
		"new, class deleted": {request: create(claim{class: "gone"}), lookups: []string{"class gone"}},
		"new, without class": {request: create(claim{class: "none"})},
		"new, class unavailable": {
			request: create(claim{}), outage: map[string]error{"class": down},
			audit: warnedBy("pvc-class-unavailable"), lookups: []string{"class fast"},
		},
		"new, limits unknown": {
			request: create(claim{class: "fixed"}), outage: map[string]error{"type": down},
			audit: warnedBy("pvc-cannot-grow-later,pvc-limits-unavailable"), lookups: []string{"class fixed", "type fixed"},
		},
		"new, invalid response of the cloud": {
			request: create(claim{class: "invalid"}), audit: warnedBy("pvc-limits-unavailable"),
			lookups: []string{"class invalid", "type invalid"},
		},
		"grows":              {request: update(claim{}, claim{size: "20Gi"}), lookups: []string{"class fast"}},
		"grows over maximum": {request: update(claim{}, claim{size: "101Gi"}), lookups: []string{"class fast"}},
		"grows, class does not allow it": {
			request: update(
				claim{class: "fixed"}, claim{class: "fixed", size: "20Gi"},
			), audit: warnedBy("pvc-class-not-expandable"),
			lookups: []string{"class fixed"},
		},
		"grows, all conditions not met": {
			request: update(claim{phase: "Pending"}, claim{class: "gone", size: "20Gi"}),
			audit:   warnedBy("pvc-class-changed,pvc-class-not-found,pvc-not-bound"), lookups: []string{"class gone"},
		},
		"grows without class": {
			request: update(claim{class: "none"}, claim{class: "none", size: "20Gi"}), audit: warnedBy("pvc-no-class"),
		},
		"grows, class unavailable": {
			request: update(
				claim{phase: "Pending"}, claim{size: "20Gi"},
			), outage: map[string]error{"class": down},
			audit: warnedBy("pvc-class-unavailable,pvc-not-bound"), lookups: []string{"class fast"},
		},
		"reverts growth": {request: update(claim{size: "20Gi"}, claim{})},
		"other change":   {request: update(claim{phase: "Pending"}, claim{class: "gone"})},
		"being deleted": {
			request: update(claim{phase: "Pending"}, claim{size: "20Gi", deletionTimestamp: "2026-01-02T03:04:05Z"}),
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t, newMutator) })
	}
}

func TestMutatorExplains(t *testing.T) {
	m := persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{Classes: &facts{}})
	got, err := admit(t, m, update(claim{class: "fixed", phase: "Pending"}, claim{class: "fixed", size: "20Gi"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`status.phase: must be "Bound" for the claim to grow; got "Pending"; retry when the claim is bound`,
		`spec.storageClassName: StorageClass "fixed" must have allowVolumeExpansion: true for the claim to grow; ` +
			`ask a cluster administrator to set it if driver "csi.mycloud.io" can expand volumes`,
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Without a cloud there are no limits to warn about.
func TestMutatorWithoutCloud(t *testing.T) {
	m := persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{Classes: &facts{}})
	got, err := admit(t, m, create(claim{size: "1Pi"}))
	if err != nil || !got.Allowed || got.Warnings != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
