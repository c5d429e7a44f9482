package volumes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	// patience is how long an API server waits for a webhook.
	patience = 3 * time.Second

	withoutZones = "spec.csi.volumeHandle: zone labels and node affinity were not added because the cloud did not respond; " +
		"the controllers will add them later"
	withoutLimits = "Warning: " + request + `"501Gi" was not validated against the limits of ` + ofArchive +
		" because the cloud did not respond; check the claim's Events later\n"
)

// While the cloud is unavailable, no request is rejected or waits long. Afterwards the controllers catch up.
func TestCloudAway(t *testing.T) {
	tests := map[string]struct{ leave, comeBack func(context.Context) error }{
		"stopped": {
			leave:    func(context.Context) error { shared.cloud.Kill(); return nil },
			comeBack: func(ctx context.Context) error { return shared.cloud.Restart(ctx) },
		},
		// Connections are accepted and never answered.
		"hanging": {
			leave:    func(context.Context) error { return shared.cloud.Signal(syscall.SIGSTOP) },
			comeBack: func(context.Context) error { return shared.cloud.Signal(syscall.SIGCONT) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rights(t)
			grown := bound(t, "archive", "vol-archive-1", "500Gi")
			back := whenDone(t, test.comeBack)
			if err := test.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			bare := volume(unique("bare"), builder.VolumeHandle(fresh(t)))
			ownZone := volume(unique("zone"), builder.VolumeHandle(fresh(t)), terms(all(in(zone, "eu-1b", "eu-1c"))))
			ownRack := volume(unique("rack"), builder.VolumeHandle(fresh(t)), terms(all(in("rack", "r1"))))
			before := counted(t)
			admitted(t, bare, ownZone, ownRack)
			if got := counted(t) - before; got != 3 {
				t.Errorf("%d are counted as admitted without the cloud, want 3", got)
			}
			want := env.Output{Stdout: fmt.Sprintf("persistentvolumeclaim/%s patched\n", grown), Stderr: withoutLimits}
			if diff := cmp.Diff(want, grow(t, grown, "501Gi")); diff != "" {
				t.Errorf("growth (-want +got):\n%s", diff)
			}
			for _, pv := range []*corev1.PersistentVolume{bare, ownZone, ownRack} {
				if got := get(t, pv.Name); len(got.Labels) > 0 {
					t.Errorf("%s has labels %v without the cloud", pv.Name, got.Labels)
				}
			}
			if err := back(); err != nil {
				t.Fatal(err)
			}
			completes(t, bare, affinity(all(in(region, "eu-1"), in(zone, "eu-1b"))))
			completes(t, ownZone, ownZone.Spec.NodeAffinity)
			completes(t, ownRack, ownRack.Spec.NodeAffinity)
			asksAgain(t, grown)
		})
	}
}

// whenDone returns the function that ends an outage, which is called at the end of the test at the latest.
func whenDone(t *testing.T, end func(context.Context) error) func() error {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	once := sync.OnceValue(func() error { return end(ctx) })
	t.Cleanup(func() {
		if err := once(); err != nil {
			t.Error(err)
		}
	})
	return once
}

// admitted creates PersistentVolumes concurrently. The webhooks warn about each before the API server would continue
// without them.
func admitted(t *testing.T, list ...*corev1.PersistentVolume) {
	t.Helper()
	var creations sync.WaitGroup
	for _, pv := range list {
		creations.Go(func() {
			start := time.Now()
			heard, err := try(t.Context(), pv.DeepCopy())
			took := time.Since(start)
			if err != nil {
				t.Errorf("%s: %v", pv.Name, err)
			}
			if took >= patience {
				t.Errorf("%s: admission took %s, which must be below %s", pv.Name, took, patience)
			}
			if diff := cmp.Diff([]string{withoutZones}, heard); diff != "" {
				t.Errorf("%s: warnings (-want +got):\n%s", pv.Name, diff)
			}
		})
	}
	creations.Wait()
}

// counted returns how many PersistentVolumes were admitted without the cloud.
func counted(t *testing.T) int {
	t.Helper()
	const series = `quaymaster_webhook_findings_total{rule="pv-zone-unavailable",severity="warning",webhook="mutate-persistentvolume"} `
	_, rest, found := strings.Cut(shared.webhook.Scrape(t), "\n"+series)
	if !found {
		return 0
	}
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// asksAgain waits until the webhooks query the cloud again: for a moment they skip a cloud that did not answer. The
// claim still cannot grow.
func asksAgain(t *testing.T, grown string) {
	t.Helper()
	id := fresh(t)
	env.Eventually(t, soon, "zones at admission", func(ctx context.Context) error {
		pv := volume("probe", builder.VolumeHandle(id))
		if err := shared.Client.Create(ctx, pv, client.DryRunAll); err != nil {
			return err
		}
		if pv.Labels[zone] == "" {
			return fmt.Errorf("labels %v", pv.Labels)
		}
		return nil
	})
	env.Eventually(t, soon, "limits at admission", func(ctx context.Context) error {
		pvc := &corev1.PersistentVolumeClaim{}
		if err := shared.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: grown}, pvc); err != nil {
			return err
		}
		builder.Request("502Gi")(pvc)
		if err := shared.Client.Update(ctx, pvc, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("growth in use: %w", err)
		}
		return nil
	})
}

// A backlog after an outage is completed within the promise for a single PersistentVolume.
func TestBacklog(t *testing.T) {
	rights(t)
	const size = 200
	back := whenDone(t, func(ctx context.Context) error { return shared.cloud.Restart(ctx) })
	shared.cloud.Kill()
	id, mark := fresh(t), map[string]string{"backlog": unique("backlog")}
	left := make(chan *corev1.PersistentVolume, size)
	for range size {
		left <- volume(unique("backlog"), builder.VolumeHandle(id), labels(mark))
	}
	close(left)
	var creations sync.WaitGroup
	for range 8 {
		creations.Go(func() {
			for pv := range left {
				if err := shared.Client.Create(t.Context(), pv); err != nil {
					t.Error(err)
				}
			}
		})
	}
	creations.Wait()
	if err := back(); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, completed, "the zones of all", func(ctx context.Context) error {
		var list corev1.PersistentVolumeList
		zoned := client.MatchingLabels{zone: "eu-1b", region: "eu-1"}
		if err := shared.Client.List(ctx, &list, client.MatchingLabels(mark), zoned); err != nil {
			return err
		}
		if n := len(list.Items); n != size {
			return fmt.Errorf("%d of %d have them", n, size)
		}
		return nil
	})
}
