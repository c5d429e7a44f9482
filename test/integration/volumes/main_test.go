// Package volumes_test tests zones of PersistentVolumes and growth of PersistentVolumeClaims on a real API server with
// both roles of Quaymaster and the cloud: what users see, and what happens while the cloud is unavailable.
package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	namespace = "shop"
	// soon bounds how long a change takes to have its effect, with a margin for slow machines.
	soon = 30 * time.Second
	// foreign is a StorageClass of another driver.
	foreign = "foreign"
)

// fixture is shared by the tests of this package.
type fixture struct {
	*env.Env
	cloud   *env.Mycloud
	webhook *env.Webhook
}

var shared fixture

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	// The failure policies are the chart's defaults.
	if err := e.InstallChart(ctx, env.Values{"webhook": map[string]any{"url": env.WebhookURL(port)}}); err != nil {
		return err
	}
	if err := prepare(ctx, e); err != nil {
		return err
	}
	stocked, err := stock(e)
	if err != nil {
		return err
	}
	if shared.cloud, err = e.StartMycloud(ctx, stocked, "--log-requests"); err != nil {
		return err
	}
	config := env.CloudConfigFor("dev", shared.cloud)
	cloudConfig, err := e.CloudConfigArg("webhook", config)
	if err != nil {
		return err
	}
	if shared.webhook, err = e.StartWebhook(ctx, port, cloudConfig); err != nil {
		return err
	}
	if _, err := e.StartControllers(ctx, config); err != nil {
		return err
	}
	return env.Poll(ctx, "the API server to call the webhooks", called)
}

// prepare creates the namespace and the StorageClasses.
func prepare(ctx context.Context, e *env.Env) error {
	other := builder.StorageClass(func(class *storagev1.StorageClass) {
		class.Name, class.Provisioner = foreign, "csi.example.com"
	})
	return errors.Join(
		e.CreateExample(ctx, "storageclasses.yaml"),
		e.Client.Create(ctx, other),
		e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
	)
}

// volumes is the number of volumes for fresh.
const volumes = 64

// stock writes the example inventory with additional volumes that have not been looked up yet.
func stock(e *env.Env) (string, error) {
	root, err := env.Root()
	if err != nil {
		return "", err
	}
	all, err := inventory.Load(filepath.Join(root, "examples", "inventory.yaml"))
	if err != nil {
		return "", err
	}
	for i := range volumes {
		all.Volumes = append(all.Volumes, inventory.Volume{ID: volumeID(i), Type: "ssd", SizeGiB: 20, Zone: "eu-1b"})
	}
	raw, err := yaml.Marshal(all)
	if err != nil {
		return "", err
	}
	file := filepath.Join(e.Dir, "inventory.yaml")
	return file, os.WriteFile(file, raw, 0o600)
}

func volumeID(i int) string { return fmt.Sprintf("vol-fresh-%d", i) }

var given, named atomic.Int64

// fresh returns a volume in eu-1b that the webhooks have not cached.
func fresh(t *testing.T) string {
	t.Helper()
	i := int(given.Add(1)) - 1
	if i >= volumes {
		t.Fatalf("all %d volumes are used", volumes)
	}
	return volumeID(i)
}

// unique returns a name that no other object has: without kube-controller-manager no deletion completes.
func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, named.Add(1)) }

// called reports whether the API server calls the webhooks of both configurations.
func called(ctx context.Context) error {
	unknown := volume("probe", builder.VolumeHandle("vol-unknown"))
	if err := shared.Client.Create(ctx, unknown, client.DryRunAll); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a PersistentVolume of nothing: %w", err)
	}
	bad := builder.Service(builder.DLB("scheduler", "fastest"))
	bad.Namespace, bad.UID = namespace, ""
	if err := shared.Client.Create(ctx, bad, client.DryRunAll); !apierrors.IsInvalid(err) {
		return fmt.Errorf("an invalid Service: %w", err)
	}
	return nil
}

// volume returns a PersistentVolume that is yet to be created.
func volume(name string, options ...builder.PersistentVolumeOption) *corev1.PersistentVolume {
	pv := builder.PersistentVolume(options...)
	pv.Name, pv.UID = name, ""
	return pv
}
