package chart

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

// configurations are the resources of the two webhook configurations.
var configurations = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// checkRemovalOrder checks in the audit log that an uninstallation deleted the webhook configurations before anything
// that answers their calls.
func checkRemovalOrder(t *testing.T, e *env.Env) {
	t.Helper()
	file, err := os.Open(e.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var deleted []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb      string
			UserAgent string
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.Verb == "delete" && strings.HasPrefix(event.UserAgent, "Helm/") && strings.HasPrefix(event.ObjectRef.Name, release) {
			deleted = append(deleted, event.ObjectRef.Resource)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	// The hook deletes them, and then its own empty ones.
	first := slices.Compact(slices.Sorted(slices.Values(deleted[:min(4, len(deleted))])))
	if diff := cmp.Diff(configurations, first); diff != "" || !slices.Contains(deleted, "deployments") {
		t.Errorf("the deletions are %v (-want first +got):\n%s", deleted, diff)
	}
}

// checkOtherRelease installs a release of another name in another namespace, after one that left its CRDs behind. The
// CRDs are kept if they are the same, else the user decides.
func checkOtherRelease(t *testing.T, e *env.Env) {
	const name, namespace = "edge", "edge-system"
	crds := []string{"loadbalancerpolicies.quaymaster.dev", "clusterloadbalancerpolicies.quaymaster.dev"}
	install := []string{"install", name, folder(t), "--namespace", namespace, "--create-namespace"}
	uninstall := []string{"uninstall", name, "--namespace", namespace}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := env.Kubectl(t.Context(), e.AdminKubeconfig, "", args...)
		if err != nil || out.Code != 0 {
			t.Fatalf("kubectl %v: %v %+v", args, err, out)
		}
		return out.Stdout
	}
	owners := func() []string {
		t.Helper()
		return strings.Fields(kubectl("get", "crd", crds[0], crds[1], "-o",
			`jsonpath={range .items[*]}{.metadata.annotations.meta\.helm\.sh/release-name}{"\n"}{end}`))
	}

	helm(t, e, env.Values{}, install...)
	helm(t, e, env.Values{}, "upgrade", name, folder(t), "--namespace", namespace)
	helm(t, e, nil, uninstall...)
	if got := owners(); !slices.Equal(got, []string{release, release}) {
		t.Errorf("the CRDs belong to %v", got)
	}

	kubectl("patch", "crd", crds[0], "--type=json", "-p", `[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]`)
	out := tryHelm(t, e, env.Values{}, install...)
	want := "CustomResourceDefinition " + crds[0] + " does not belong to this release and differs"
	if out.Code == 0 || !strings.Contains(out.Stderr, want) {
		t.Fatalf("other CRDs: %+v, want %s", out, want)
	}
	_, remedy, _ := strings.Cut(strings.TrimSpace(out.Stderr), "replace it with ")
	for command := range strings.SplitSeq(strings.SplitN(remedy, "\n", 2)[0], " && ") {
		kubectl(strings.Fields(command)[1:]...)
	}
	helm(t, e, env.Values{}, install...)
	if got := owners(); !slices.Equal(got, []string{name, name}) {
		t.Errorf("the CRDs belong to %v", got)
	}
	if got := kubectl("get", "crd", crds[0], "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}"); got != "Enforcement" {
		t.Errorf("the release did not replace the CRD: its first column is %q", got)
	}
	helm(t, e, nil, uninstall...)
	// The other tests install the CRDs themselves. An API server may take minutes until it serves CRDs that are created while
	// it still serves those of before.
	kubectl("delete", "crd", crds[0], crds[1])
	env.Eventually(t, soon, "an end of the API", func(ctx context.Context) error {
		out, err := env.Kubectl(ctx, e.AdminKubeconfig, "", "get", "--raw", "/apis/"+v1alpha1.GroupVersion().String())
		if err == nil && out.Code == 0 {
			err = errors.New("it is served")
		}
		return err
	})
}
