package leadership_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/kube/leadership"
)

func TestOf(t *testing.T) {
	renewed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: new(int32(15)),
		}}
	}
	noted := func(when time.Time, field string) metav1.ManagedFieldsEntry {
		fields := &metav1.FieldsV1{}
		fields.SetRawString(`{"f:spec":{"f:` + field + `":{}}}`)
		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: when}, FieldsV1: fields}
	}
	// The clock of the holder is an hour behind that of the API server.
	behind := lease("a")
	behind.ManagedFields = []metav1.ManagedFieldsEntry{
		noted(renewed.Add(time.Hour), "renewTime"), noted(renewed.Add(2*time.Hour), "leaseTransitions"),
	}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		after time.Duration
		want  leadership.State
	}{
		"held":     {lease("a"), 15 * time.Second, leadership.State{Holder: "a", Age: 15 * time.Second, Held: true}},
		"expired":  {lease("a"), 16 * time.Second, leadership.State{Holder: "a", Age: 16 * time.Second}},
		"behind":   {behind, time.Hour + 15*time.Second, leadership.State{Holder: "a", Age: 15 * time.Second, Held: true}},
		"over":     {behind, time.Hour + 16*time.Second, leadership.State{Holder: "a", Age: 16 * time.Second}},
		"released": {lease(""), time.Second, leadership.State{}},
		"none":     {nil, time.Second, leadership.State{}},
		"not renewed": {
			&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")}}, time.Second, leadership.State{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, leadership.Of(tc.lease, renewed.Add(tc.after))); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		})
	}
}
