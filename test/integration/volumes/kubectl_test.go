package volumes_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

// kubectl runs kubectl in the namespace, with a manifest if there is one.
func kubectl(t *testing.T, kubeconfig string, manifest any, args ...string) env.Output {
	t.Helper()
	stdin := ""
	if manifest != nil {
		raw, err := yaml.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		stdin = string(raw)
		args = append(args, "-f", "-")
	}
	out, err := env.Kubectl(t.Context(), kubeconfig, stdin, append(args, "--namespace", namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// admin runs kubectl as the administrator, who creates PersistentVolumes, user as a user, who creates claims.
func admin(t *testing.T, manifest any, args ...string) env.Output {
	t.Helper()
	return kubectl(t, shared.AdminKubeconfig, manifest, args...)
}

func user(t *testing.T, manifest any, args ...string) env.Output {
	t.Helper()
	return kubectl(t, shared.DeveloperKubeconfig, manifest, args...)
}

// grow is a user's patch of the requested size of a claim.
func grow(t *testing.T, claim, size string) env.Output {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	return user(t, nil, "patch", "pvc", claim, "--patch", patch)
}

// warnings records the warnings of an API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

var _ rest.WarningHandlerWithContext = (*warnings)(nil)

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// try creates an object as the administrator and returns the warnings.
func try(ctx context.Context, object client.Object, options ...client.CreateOption) ([]string, error) {
	heard := &warnings{}
	config := rest.CopyConfig(shared.Admin)
	config.WarningHandlerWithContext = heard
	c, err := client.New(config, client.Options{Scheme: shared.Client.Scheme(), Mapper: shared.Client.RESTMapper()})
	if err != nil {
		return nil, err
	}
	err = c.Create(ctx, object, options...)
	return heard.texts, err
}

// create is try for an object that must be admitted.
func create(t *testing.T, object client.Object, options ...client.CreateOption) []string {
	t.Helper()
	heard, err := try(t.Context(), object, options...)
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

// asked returns how many requests for this ID the cloud has received.
func asked(t *testing.T, id string) int {
	t.Helper()
	log, err := os.ReadFile(shared.cloud.Log())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), "/"+id+" ")
}

// rights fails the test if any request of both roles was forbidden by its end.
func rights(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, role := range []string{"webhook", "controllers"} {
			log, err := os.ReadFile(filepath.Join(shared.LogDir(), "quaymaster-"+role+".log"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(log) {
				if bytes.Contains(bytes.ToLower(line), []byte("forbidden")) {
					t.Errorf("the ServiceAccount of the %s lacks rights: %s", role, line)
				}
			}
		}
	})
}
