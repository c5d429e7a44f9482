package operations_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// run runs a program, which must end with the exit code and print the wanted text to stdout or stderr.
func run(t *testing.T, name string, args []string, code int, want ...string) env.Output {
	t.Helper()
	out, err := program(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	if out.Code != code {
		t.Errorf("%s %v: exit code %d, want %d", name, args, out.Code, code)
	}
	for _, text := range want {
		if !strings.Contains(out.Stdout+out.Stderr, text) {
			t.Errorf("%s %v does not contain %q:\n%s%s", name, args, text, out.Stdout, out.Stderr)
		}
	}
	return out
}

// A cluster is torn down: not before its Services and its controllers are gone, and then completely except for what was
// retained.
func TestTeardown(t *testing.T) {
	ctx := t.Context()
	for name, annotations := range map[string]map[string]string{
		"kept":    {"service.beta.kubernetes.io/dlb-retain-on-delete": "true"},
		"deleted": nil,
		"guarded": {"service.beta.kubernetes.io/dlb-deletion-protection": "true"},
	} {
		svc := service(name)
		svc.Annotations = annotations
		if err := shared.Client.Create(ctx, svc); err != nil {
			t.Fatal(err)
		}
		shared.AwaitAddress(t, soon, svc)
	}
	args := func(more ...string) []string {
		return append([]string{"teardown", "--kubeconfig=" + shared.AdminKubeconfig, shared.cloudConfig}, more...)
	}
	run(t, "quayctl", args("--yes"), 1, "3 Services still use load balancers of this cluster: default/deleted, default/guarded, default/kept")
	run(t, "quayctl", args("--yes", "--ignore-services"), 1, "the controllers are still running: ", "holds the lease kube-system/cloud-controller-manager")

	shared.controllers.Kill()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"}}
	if err := shared.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	// As a leader does whose clock is an hour behind.
	lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	if err := shared.Client.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
	run(t, "quayctl", args("--yes", "--ignore-services"), 1, "the controllers are still running: ")
	// As if the lease had expired.
	lease.Spec.HolderIdentity = new("")
	if err := shared.Client.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}

	listed := run(t, "quayctl", args("--ignore-services"), 1, "dev-default-deleted", "would be deleted", "owns 4 objects in the cloud; set --yes to delete them")
	run(t, "quayctl", args("--ignore-services", "--include-protected", "--dry-run"), 1, "kept: Service default/kept has retain-on-delete")
	if again := run(t, "quayctl", args("--ignore-services"), 1); again.Stdout != listed.Stdout {
		t.Errorf("a dry run changed something:\n%s\n%s", listed.Stdout, again.Stdout)
	}
	run(t, "quayctl", args("--ignore-services", "--yes"), 1,
		"deleted", "kept: it has deletion protection", "kept: Service default/kept has retain-on-delete", "needs it", "still owns 3 objects")

	// Its owner has taken it over elsewhere: without Services nothing is retained any more.
	for _, name := range []string{"kept", "deleted", "guarded"} {
		svc := service(name)
		if err := shared.Client.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil {
			t.Fatal(err)
		}
		svc.Finalizers = nil
		if err := errors.Join(shared.Client.Update(ctx, svc), shared.Client.Delete(ctx, svc)); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "quayctl", args("--include-protected", "--yes"), 0, "dev-default-guarded", "owns no objects in the cloud")
	run(t, "quayctl", args(), 0, "owns no objects in the cloud")
	if err := shared.controllers.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}
