package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// volume returns the manifest of a PersistentVolume for a volume of the cloud; spec is appended to it.
func volume(name, id, class, spec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: %s
  csi: {driver: csi.mycloud.io, volumeHandle: %s}
%s`, name, class, id, spec)
}

// zones holds the labels and node affinity that bind a volume to its zones.
type zones struct {
	Zone, Region string
	// Terms are the terms of the affinity, each with its values by key.
	Terms []map[string][]string
}

func (d *demonstration) zones(ctx context.Context, name string) (zones, error) {
	var pv corev1.PersistentVolume
	if err := d.kube.Get(ctx, client.ObjectKey{Name: name}, &pv); err != nil {
		return zones{}, err
	}
	z := zones{Zone: pv.Labels[corev1.LabelTopologyZone], Region: pv.Labels[corev1.LabelTopologyRegion]}
	if pv.Spec.NodeAffinity == nil {
		return z, nil
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		values := map[string][]string{}
		for _, e := range term.MatchExpressions {
			values[e.Key] = e.Values
		}
		z.Terms = append(z.Terms, values)
	}
	return z, nil
}

func (d *demonstration) setsZoneOfVolume(t *testing.T) {
	d.must(t, "apply", "-f", "examples/volume.yaml")
	const pinned = `  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [eu-1b, eu-1c]}]}]}
`
	if out := d.feed(t, volume("pinned", "vol-data-2", "fixed", pinned), "create", "-f", "-"); out.Code != 0 ||
		out.Stderr != "" {
		t.Fatalf("kubectl prints %+v", out)
	}
	for name, want := range map[string]zones{
		"data": {"eu-1a", "eu-1", []map[string][]string{
			{corev1.LabelTopologyZone: {"eu-1a"}, corev1.LabelTopologyRegion: {"eu-1"}},
		}},
		// An existing affinity is not changed.
		"pinned": {"eu-1b", "eu-1", []map[string][]string{{corev1.LabelTopologyZone: {"eu-1b", "eu-1c"}}}},
	} {
		got, err := d.zones(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("volume %s (-want +got):\n%s", name, diff)
		}
	}
}

func (d *demonstration) deniesUnknownVolume(t *testing.T) {
	out := d.feed(t, volume("nowhere", "vol-nowhere", "ssd", ""), "create", "-f", "-")
	if out.Code != 1 || !strings.Contains(out.Stderr, `spec.csi.volumeHandle: Not found: "vol-nowhere"`) {
		t.Errorf("kubectl prints %+v", out)
	}
	err := d.kube.Get(t.Context(), client.ObjectKey{Name: "nowhere"}, &corev1.PersistentVolume{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("get the denied volume: %v, want not found", err)
	}
}

// The cloud process is stopped rather than killed: a cloud that hangs is worse than one that is down, and it can be
// continued.
func (d *demonstration) admitsVolumeWithoutCloud(t *testing.T) {
	cloud := d.pid(t, "mycloud")
	if err := syscall.Kill(cloud, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() error { return syscall.Kill(cloud, syscall.SIGCONT) }
	t.Cleanup(func() {
		if err := resume(); err != nil {
			t.Error(err)
		}
	})
	out := d.feed(t, volume("shared", "vol-shared-1", "ssd", ""), "create", "-f", "-")
	if out.Code != 0 || !strings.HasPrefix(out.Stderr, "Warning: ") {
		t.Errorf("kubectl prints %+v, want a warning", out)
	}
	if got, err := d.zones(t.Context(), "shared"); err != nil || got.Zone != "" {
		t.Errorf("without the cloud: zone %q, error %v", got.Zone, err)
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	want := zones{"eu-1a__eu-1b", "eu-1", []map[string][]string{
		{corev1.LabelTopologyZone: {"eu-1a", "eu-1b"}, corev1.LabelTopologyRegion: {"eu-1"}},
	}}
	env.Eventually(t, 30*time.Second, "the zones of the volume", func(ctx context.Context) error {
		got, err := d.zones(ctx, "shared")
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

func (d *demonstration) growsClaim(t *testing.T) {
	d.bound(t, "data")
	want := env.Output{Stdout: "persistentvolumeclaim/data patched\n"}
	if diff := cmp.Diff(want, d.grow(t, "data", "30Gi")); diff != "" {
		t.Errorf("expansion by whole steps (-want +got):\n%s", diff)
	}
	if out := d.grow(t, "data", "35Gi"); out.Code != 0 || !strings.HasPrefix(out.Stderr, "Warning: ") ||
		!strings.Contains(out.Stderr, "the volume will have 40Gi instead of 35Gi") {
		t.Errorf("expansion by a part of a step: kubectl prints %+v", out)
	}
	out := d.grow(t, "data", "2Ti")
	for _, want := range []string{
		`The PersistentVolumeClaim "data" is invalid: spec.resources.requests[storage]: Invalid value: "2Ti": must ` +
			`be at most 1024Gi`,
		`StorageClass "ssd"`, "the claim has 20Gi",
	} {
		if out.Code != 1 || !strings.Contains(out.Stderr, want) {
			t.Errorf("expansion beyond the maximum: exit code %d\n%s\nwithout %q", out.Code, out.Stderr, want)
		}
	}
}

// The API server denies the expansion without saying why; the warning explains it.
func (d *demonstration) explainsFixedClaim(t *testing.T) {
	out := d.feed(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: pinned}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: fixed
  volumeName: pinned
  resources: {requests: {storage: 20Gi}}
`, "create", "-f", "-")
	if out.Code != 0 || !strings.Contains(out.Stderr, "allowVolumeExpansion") {
		t.Errorf("kubectl prints %+v, want a warning", out)
	}
	d.bound(t, "pinned")
	out = d.grow(t, "pinned", "30Gi")
	for _, want := range []string{"Warning: ", "allowVolumeExpansion",
		"is forbidden: only dynamically provisioned pvc can be resized"} {
		if out.Code != 1 || !strings.Contains(out.Stderr, want) {
			t.Errorf("exit code %d\n%s\nwithout %q", out.Code, out.Stderr, want)
		}
	}
}

// grow requests more storage, as in the guide.
func (d *demonstration) grow(t *testing.T, claim, size string) env.Output {
	t.Helper()
	return d.kubectl(t, "patch", "pvc", claim, "-p", `{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
}

// bound waits until a claim is bound.
func (d *demonstration) bound(t *testing.T, claim string) {
	t.Helper()
	env.Eventually(t, 30*time.Second, "the volume of claim "+claim, func(ctx context.Context) error {
		var pvc corev1.PersistentVolumeClaim
		if err := d.kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: claim}, &pvc); err != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound {
			return errors.New("it is " + string(pvc.Status.Phase))
		}
		return nil
	})
}
