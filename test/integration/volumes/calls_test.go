package volumes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
)

// step is a request and the calls that it may cause.
type step struct {
	what string
	do   func() error
	want int
}

func count(t *testing.T, steps ...step) {
	t.Helper()
	for _, s := range steps {
		before := shared.webhook.Calls(t)
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		if got := shared.webhook.Calls(t) - before; got != s.want {
			t.Errorf("%s costs %d calls, want %d", s.what, got, s.want)
		}
	}
}

func TestCallsForPersistentVolumes(t *testing.T) {
	rights(t)
	tests := map[string]struct {
		source builder.PersistentVolumeOption
		create int
	}{
		"the cloud's": {builder.VolumeHandle("vol-data-1"), 1},
		"of another driver": {builder.Source(corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "vol-data-1"},
		}), 0},
		"on NFS": {builder.Source(corev1.PersistentVolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/data"},
		}), 0},
		"on a host": {builder.Source(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, pv := t.Context(), volume(unique("counted"), test.source)
			count(
				t,
				step{"creation", func() error { return shared.Client.Create(ctx, pv) }, test.create},
				step{"a label", func() error {
					before := pv.DeepCopy()
					metav1.SetMetaDataLabel(&pv.ObjectMeta, "app", "web")
					return shared.Client.Patch(ctx, pv, client.MergeFrom(before))
				}, 0},
				step{"status", func() error {
					pv.Status.Phase = corev1.VolumeAvailable
					return shared.Client.Status().Update(ctx, pv)
				}, 0},
				step{"deletion", func() error { return shared.Client.Delete(ctx, pv) }, 0},
			)
		})
	}
}

// Only growth is looked up: a claim changes for many other reasons.
func TestCallsForPersistentVolumeClaims(t *testing.T) {
	rights(t)
	ctx, pvc := t.Context(), claim(unique("counted"), "ssd", "20Gi")
	change := func(do func()) func() error {
		return func() error {
			before := pvc.DeepCopy()
			do()
			return shared.Client.Patch(ctx, pvc, client.MergeFrom(before))
		}
	}
	ask := func(size string) func() error {
		return change(func() { pvc.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size) })
	}
	count(
		t,
		step{"creation", func() error { return shared.Client.Create(ctx, pvc) }, 1},
		step{"its volume", change(func() { pvc.Spec.VolumeName = "data" }), 0},
		step{"status", func() error {
			pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: pvc.Spec.Resources.Requests.DeepCopy()}
			return shared.Client.Status().Update(ctx, pvc)
		}, 0},
		step{"a label", change(func() { pvc.Labels = map[string]string{"app": "web"} }), 0},
		step{"growth", ask("40Gi"), 2},
		step{"the same size in other words", ask("40960Mi"), 0},
		step{"less again", ask("30Gi"), 0},
		step{"deletion", func() error { return shared.Client.Delete(ctx, pvc) }, 0},
		step{"a finalizer that goes", change(func() { pvc.Finalizers = nil }), 0},
	)
}
