package persistentvolumeclaim_test

import (
	"context"
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
		"new, can grow":         {request: create(claim{}), asked: []string{"class fast", "type fast"}},
		"new, cannot grow":      {request: create(claim{class: "fixed"}), audit: warned("pvc-cannot-grow-later"), asked: []string{"class fixed", "type fixed"}},
		"new, beyond":           {request: create(claim{size: "101Gi"}), audit: warned("pvc-created-over-maximum"), asked: []string{"class fast", "type fast"}},
		"new, no such type":     {request: create(claim{class: "unknown"}), audit: warned("pvc-type-unknown"), asked: []string{"class unknown", "type unknown"}},
		"new, default type":     {request: create(claim{class: "untyped", size: "1Pi"}), asked: []string{"class untyped"}},
		"new, other driver":     {request: create(claim{class: "foreign", size: "1Pi"}), asked: []string{"class foreign"}},
		"new, class is no more": {request: create(claim{class: "gone"}), asked: []string{"class gone"}},
		"new, without class":    {request: create(claim{class: "none"})},
		"new, class not known": {
			request: create(claim{}), outage: map[string]error{"class": down},
			audit: warned("pvc-class-unavailable"), asked: []string{"class fast"},
		},
		"new, cloud does not answer": {
			request: create(claim{class: "fixed"}), outage: map[string]error{"type": context.DeadlineExceeded},
			audit: warned("pvc-cannot-grow-later,pvc-limits-unavailable"), asked: []string{"class fixed", "type fixed"},
		},
		"new, cloud talks nonsense": {
			request: create(claim{class: "senseless"}), audit: warned("pvc-limits-unavailable"),
			asked: []string{"class senseless", "type senseless"},
		},
		"grows":            {request: update(claim{}, claim{size: "20Gi"}), asked: []string{"class fast"}},
		"grows off limits": {request: update(claim{}, claim{size: "101Gi"}), asked: []string{"class fast"}},
		"grows, class does not allow it": {
			request: update(claim{class: "fixed"}, claim{class: "fixed", size: "20Gi"}), audit: warned("pvc-class-not-expandable"),
			asked: []string{"class fixed"},
		},
		"grows, all that fail": {
			request: update(claim{phase: "Pending"}, claim{class: "gone", size: "20Gi"}),
			audit:   warned("pvc-class-changed,pvc-class-not-found,pvc-not-bound"), asked: []string{"class gone"},
		},
		"grows without class": {request: update(claim{class: "none"}, claim{class: "none", size: "20Gi"}), audit: warned("pvc-no-class")},
		"grows, class not known": {
			request: update(claim{phase: "Pending"}, claim{size: "20Gi"}), outage: map[string]error{"class": context.DeadlineExceeded},
			audit: warned("pvc-class-unavailable,pvc-not-bound"), asked: []string{"class fast"},
		},
		"takes back a growth": {request: update(claim{size: "20Gi"}, claim{})},
		"changes otherwise":   {request: update(claim{phase: "Pending"}, claim{class: "gone"})},
		"being deleted": {
			request: update(claim{phase: "Pending"}, claim{size: "20Gi", deletionTimestamp: "2026-01-02T03:04:05Z"}),
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t, newMutator) })
	}
}

func TestMutatorExplains(t *testing.T) {
	m := persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{Classes: &facts{}})
	got, err := m.Admit(t.Context(), update(claim{class: "fixed", phase: "Pending"}, claim{class: "fixed", size: "20Gi"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`status.phase: must be Bound for the claim to grow; got "Pending"; grow the claim when it is bound`,
		"spec.storageClassName: StorageClass fixed must have allowVolumeExpansion: true for the claim to grow; " +
			"a cluster administrator can set it, if the driver csi.mycloud.io can expand volumes",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Without a cloud there are no limits to warn of.
func TestMutatorWithoutCloud(t *testing.T) {
	m := persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{Classes: &facts{}})
	got, err := m.Admit(t.Context(), create(claim{size: "1Pi"}))
	if err != nil || !got.Allowed || got.Warnings != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
