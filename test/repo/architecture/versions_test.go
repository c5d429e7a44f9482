package architecture

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestSharedVersions: the product and the tools of its tests use one version of each module, so that it is downloaded and
// compiled once. Two versions of a module at the bottom, such as k8s.io/apimachinery, double the time of a first build.
func TestSharedVersions(t *testing.T) {
	product := versions(t, "../../..")
	for _, tool := range []string{"etcd", "helm", "kubernetes", "promtool"} {
		for path, version := range versions(t, "../../../tools/"+tool) {
			if want, shared := product[path]; shared && version != want {
				t.Errorf("tools/%s uses %s %s, the product %s; run make align", tool, path, version, want)
			}
		}
	}
}

// versions returns the versions of all modules that a module's packages need, by path.
func versions(t *testing.T, folder string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir, cmd.Stderr = folder, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Require) == 0 {
		t.Fatalf("%s requires no modules", folder)
	}
	found := make(map[string]string, len(file.Require))
	for _, required := range file.Require {
		found[required.Path] = required.Version
	}
	return found
}
