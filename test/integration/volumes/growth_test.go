package volumes_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// claim returns a claim of the namespace that is yet to be created.
func claim(name, class, size string, options ...builder.PersistentVolumeClaimOption) *corev1.PersistentVolumeClaim {
	options = append([]builder.PersistentVolumeClaimOption{builder.ClaimClass(class), builder.Request(size)}, options...)
	pvc := builder.PersistentVolumeClaim(options...)
	pvc.Namespace, pvc.Name, pvc.UID, pvc.Spec.VolumeName = namespace, name, "", ""
	return pvc
}

// bound creates a claim and its PersistentVolume, and binds them as kube-controller-manager would.
func bound(t *testing.T, class, handle, size string) string {
	t.Helper()
	pvc := unbound(t, class, handle, size)
	pvc.Status.Phase = corev1.ClaimBound
	pvc.Status.Capacity = pvc.Spec.Resources.Requests.DeepCopy()
	if err := shared.Client.Status().Update(t.Context(), pvc); err != nil {
		t.Fatal(err)
	}
	return pvc.Name
}

// unbound creates a claim that waits for its PersistentVolume.
func unbound(t *testing.T, class, handle, size string) *corev1.PersistentVolumeClaim {
	t.Helper()
	name := unique("claim")
	create(t, volume(name, builder.VolumeHandle(handle)))
	pvc := claim(name, class, size)
	pvc.Spec.VolumeName = name
	create(t, pvc)
	return pvc
}

// Parts of kubectl's messages.
const (
	request   = "spec.resources.requests[storage]: "
	ofSSD     = `volume type "ssd" of StorageClass "ssd"`
	ofArchive = `volume type "archive" of StorageClass "archive"`
	tooMuch   = request + `Invalid value: "2Ti": must be at most 1024Gi, the maximum of ` + ofSSD +
		"; the claim has 20Gi; request less, or copy the data to a claim with a different StorageClass\n"
	tooMuchArchive = request + `Invalid value: "32Ti": must be at most 16384Gi, the maximum of ` + ofArchive +
		"; the claim has 500Gi; request less, or copy the data to a claim with a different StorageClass\n"
	// Messages of the API server itself, about bound claims and others.
	notResizable = "Error from server (Forbidden): persistentvolumeclaims %q is forbidden: only dynamically provisioned pvc can be resized " +
		"and the storageclass that provisions the pvc must support resize\n"
	immutable = "The PersistentVolumeClaim %q is invalid: spec: Forbidden: spec is immutable after creation except resources.requests " +
		"and volumeAttributesClassName for bound claims\n"
	classField   = "spec.storageClassName: "
	cannotExpand = "Warning: " + classField + `StorageClass "fixed" must have allowVolumeExpansion: true for the claim to grow; ` +
		`ask a cluster administrator to set it if driver "csi.mycloud.io" can expand volumes` + "\n"
	mustBeBound = `Warning: status.phase: must be "Bound" for the claim to grow; got "Pending"; retry when the claim is bound` + "\n"
)

func attachedTo(size string) string {
	return request + `Invalid value: "` + size + `": must not grow from 500Gi while volume "vol-archive-1" is attached to instance "i-node-3": ` +
		`volume type "archive" cannot grow online; stop the claim's pods, then retry when the volume is detached` + "\n"
}

func TestGrowth(t *testing.T) {
	rights(t)
	const invalid = "The PersistentVolumeClaim %q is invalid: "
	tests := map[string]struct {
		class, handle, size string
		unbound             bool
		to                  string
		// refused is formatted with the claim's name. Warnings precede it.
		warnings, refused string
		// calls counts the webhooks' calls: the API server's own rejection precedes the second.
		calls int
	}{
		"within the limits":      {class: "ssd", handle: "vol-data-1", size: "20Gi", to: "30Gi", calls: 2},
		"up to the maximum":      {class: "ssd", handle: "vol-data-1", size: "20Gi", to: "1Ti", calls: 2},
		"in use":                 {class: "ssd", handle: "vol-data-2", size: "100Gi", to: "110Gi", calls: 2},
		"of another driver":      {class: foreign, handle: "vol-data-1", size: "20Gi", to: "64Ti", calls: 2},
		"beyond the maximum":     {class: "ssd", handle: "vol-data-1", size: "20Gi", to: "2Ti", refused: invalid + tooMuch, calls: 2},
		"cannot grow in use":     {class: "archive", handle: "vol-archive-1", size: "500Gi", to: "501Gi", refused: invalid + attachedTo("501Gi"), calls: 2},
		"everything is wrong":    {class: "archive", handle: "vol-archive-1", size: "500Gi", to: "32Ti", refused: invalid + "\n* " + attachedTo("32Ti") + "* " + tooMuchArchive, calls: 2},
		"class does not allow":   {class: "fixed", handle: "vol-data-1", size: "20Gi", to: "30Gi", warnings: cannotExpand, refused: notResizable, calls: 1},
		"not bound":              {class: "ssd", handle: "vol-data-1", size: "20Gi", unbound: true, to: "30Gi", warnings: mustBeBound, refused: immutable, calls: 1},
		"two conditions not met": {class: "fixed", handle: "vol-data-1", size: "20Gi", unbound: true, to: "30Gi", warnings: mustBeBound + cannotExpand, refused: immutable, calls: 1},
		"class does not exist": {
			class: "gone", handle: "vol-data-1", size: "20Gi", to: "30Gi", calls: 1,
			warnings: "Warning: " + classField + `StorageClass "gone" does not exist, so the claim cannot grow; ` +
				"ask a cluster administrator to create it with allowVolumeExpansion: true\n",
			refused: notResizable,
		},
		"no class": {
			class: "", handle: "vol-data-1", size: "20Gi", to: "30Gi", calls: 1,
			warnings: "Warning: " + classField + "must name a StorageClass for the claim to grow; " +
				"copy the data to a claim whose StorageClass has allowVolumeExpansion: true\n",
			refused: notResizable,
		},
		"off the step": {
			class: "ssd", handle: "vol-data-1", size: "20Gi", to: "25Gi", calls: 2,
			warnings: "Warning: " + request + "the volume will have 30Gi instead of 25Gi: sizes of " + ofSSD +
				" are multiples of 10Gi, up to 1024Gi; request 30Gi\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var pvc string
			if test.unbound {
				pvc = unbound(t, test.class, test.handle, test.size).Name
			} else {
				pvc = bound(t, test.class, test.handle, test.size)
			}
			want := env.Output{Stdout: fmt.Sprintf("persistentvolumeclaim/%s patched\n", pvc), Stderr: test.warnings}
			if test.refused != "" {
				want = env.Output{Stderr: test.warnings + fmt.Sprintf(test.refused, pvc), Code: 1}
			}
			before := shared.webhook.Calls(t)
			got := grow(t, pvc, test.to)
			// For immutable fields, the API server also shows the difference.
			got.Stderr, _, _ = strings.Cut(got.Stderr, "@@ ")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kubectl (-want +got):\n%s", diff)
			}
			if got := shared.webhook.Calls(t) - before; got != test.calls {
				t.Errorf("%d calls of the webhooks, want %d", got, test.calls)
			}
		})
	}
}

// Many claims are validated like a single one: that the webhooks read one more object for each must not let any pass
// unchecked.
func TestManyGrowAtOnce(t *testing.T) {
	rights(t)
	name := bound(t, "archive", "vol-archive-1", "500Gi")
	var updates sync.WaitGroup
	for range 50 {
		updates.Go(func() {
			pvc := &corev1.PersistentVolumeClaim{}
			pvc.Namespace, pvc.Name = namespace, name
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"501Gi"}}}}`))
			if err := shared.Client.Patch(t.Context(), pvc, patch, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("growth in use is not refused: %v", err)
			}
		})
	}
	updates.Wait()
}

// The author of a claim is warned of possible later problems when creating it.
func TestHintsForNewClaims(t *testing.T) {
	rights(t)
	tests := map[string]struct{ class, size, want string }{
		"good":             {"ssd", "20Gi", ""},
		"class is a name":  {"manual", "20Gi", ""},
		"of other volumes": {foreign, "64Ti", ""},
		"cannot grow": {"fixed", "20Gi", "Warning: " + classField + `StorageClass "fixed" does not have allowVolumeExpansion: true, ` +
			"so the claim cannot grow later; request the largest size that the claim will need, or use a different StorageClass\n"},
		"beyond the maximum": {"ssd", "2Ti", "Warning: " + request + `"2Ti" exceeds 1024Gi, the maximum of ` + ofSSD +
			", so no volume can be created; request less, or use a different StorageClass\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pvc := claim(unique("new"), test.class, test.size)
			want := env.Output{Stdout: fmt.Sprintf("persistentvolumeclaim/%s created\n", pvc.Name), Stderr: test.want}
			if diff := cmp.Diff(want, user(t, pvc, "create")); diff != "" {
				t.Errorf("kubectl (-want +got):\n%s", diff)
			}
		})
	}
}
