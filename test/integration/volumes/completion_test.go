package volumes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// completed is the promise for incomplete PersistentVolumes once the cloud answers.
const completed = 30 * time.Second

// Without webhooks everything is admitted. The controllers complete what can be completed and report what cannot.
func TestWebhooksAway(t *testing.T) {
	rights(t)
	back := whenDone(t, func(ctx context.Context) error { return shared.webhook.Restart(ctx) })
	shared.webhook.Kill()
	bare := volume(unique("bare"), builder.VolumeHandle(fresh(t)))
	wrong := volume(unique("wrong"), builder.VolumeHandle(fresh(t)), labels(map[string]string{zone: "eu-1c"}))
	unknown := volume(unique("unknown"), builder.VolumeHandle("vol-unknown"))
	for _, pv := range []*corev1.PersistentVolume{bare, wrong, unknown} {
		if heard := create(t, pv.DeepCopy()); len(heard) > 0 {
			t.Errorf("%s: warnings %q", pv.Name, heard)
		}
	}
	inB := affinity(all(in(region, "eu-1"), in(zone, "eu-1b")))
	completes(t, bare, inB)
	completes(t, wrong, inB)
	event(t, wrong.Name, "Warning ZoneLabelOverwritten: metadata.labels[topology.kubernetes.io/zone]: "+
		`must match the cloud; the value was replaced by "eu-1b"; correct the manifest, or remove the label from it`)
	event(t, unknown.Name, `Warning VolumeNotFound: spec.csi.volumeHandle: Not found: "vol-unknown": `+
		"must be the id of an existing volume of the cloud; create the volume first, or correct the id")

	if err := back(); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "the API server to call the webhooks", called)
}

// event waits for an Event about a PersistentVolume.
func event(t *testing.T, name, want string) {
	t.Helper()
	env.Eventually(t, soon, "an Event about "+name, func(ctx context.Context) error {
		var events corev1.EventList
		if err := shared.Client.List(ctx, &events); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "PersistentVolume" && e.InvolvedObject.Name == name {
				seen = append(seen, e.Type+" "+e.Reason+": "+e.Message)
			}
		}
		if !slices.Contains(seen, want) {
			return fmt.Errorf("there are %q", seen)
		}
		return nil
	})
}

// Labels may be changed at any time. Removed labels are restored.
func TestLabelsComeBack(t *testing.T) {
	rights(t)
	pv := volume(unique("bare"), builder.VolumeHandle(fresh(t)))
	create(t, pv)
	if out := admin(t, nil, "label", "pv", pv.Name, zone+"-", region+"-"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	completes(t, pv, pv.Spec.NodeAffinity)
}

// completes waits until a PersistentVolume of a fresh volume has its labels and that affinity.
func completes(t *testing.T, pv *corev1.PersistentVolume, want *corev1.VolumeNodeAffinity) {
	t.Helper()
	env.Eventually(t, completed, "the zone of "+pv.Name, func(context.Context) error {
		got := get(t, pv.Name)
		if diff := cmp.Diff(map[string]string{region: "eu-1", zone: "eu-1b"}, got.Labels); diff != "" {
			return fmt.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, got.Spec.NodeAffinity); diff != "" {
			return fmt.Errorf("affinity (-want +got):\n%s", diff)
		}
		return nil
	})
}
