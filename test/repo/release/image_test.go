package release

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

// TestImageOfChart: make image, the chart and the documentation of make e2e mean the same image if nothing is set.
func TestImageOfChart(t *testing.T) {
	var chart struct{ AppVersion string }
	decode(t, "charts/quaymaster/Chart.yaml", &chart)
	image := "quaymaster:" + chart.AppVersion

	if commands := makeImage(t, "VERSION=0123abc"); !strings.Contains(commands, " "+image+" ") {
		t.Errorf("make image does not build %s:\n%s", image, commands)
	}
	if commands := makeImage(t, "VERSION=v1.2.3"); !strings.Contains(commands, " quaymaster:1.2.3 ") {
		t.Errorf("make image VERSION=v1.2.3 does not build what its chart installs:\n%s", commands)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "e2e.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "kind load docker-image "+image) {
		t.Errorf("docs/operations/e2e.md does not load %s", image)
	}
}

// TestImagePlatforms: programs are built for each platform of the image.
func TestImagePlatforms(t *testing.T) {
	commands := makeImage(t, "PLATFORMS=linux/amd64,linux/arm64", "IMAGE=registry.example/q:v1")
	for _, want := range []string{
		"GOOS=linux GOARCH=amd64", "-o bin/image/linux/amd64/",
		"GOOS=linux GOARCH=arm64", "-o bin/image/linux/arm64/",
		"registry.example/q:v1 linux/amd64,linux/arm64 bin/image", "bin/image -licenses linux/amd64 linux/arm64",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("make image does not contain %q:\n%s", want, commands)
		}
	}
}

// TestImageArchitectures builds images of both architectures, one by one and as a list, each over the one before.
func TestImageArchitectures(t *testing.T) {
	builder, err := exec.LookPath("buildah")
	if err != nil {
		t.Skip("buildah is not installed")
	}
	folder := filepath.Join(t.TempDir(), "image")
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if err := os.MkdirAll(filepath.Join(folder, platform), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, platform, "quaymaster"), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	image := fmt.Sprintf("localhost/quaymaster-test:%d", os.Getpid())
	t.Cleanup(func() { _ = exec.Command(builder, "manifest", "rm", image).Run() })
	build := func(platforms string) {
		t.Helper()
		run(t, filepath.Join(root, "tools", "image.sh"), builder, image, platforms, folder, "--build-arg", "VERSION=v1")
	}

	build("linux/arm64")
	var single struct{ OCIv1 platform }
	unmarshal(t, run(t, builder, "inspect", "--type", "image", image), &single)
	if got, want := single.OCIv1, (platform{"linux", "arm64"}); got != want {
		t.Errorf("the image is for %v, want %v", got, want)
	}
	id := strings.TrimSpace(run(t, builder, "images", "--quiet", image))
	t.Cleanup(func() { _ = exec.Command(builder, "rmi", id).Run() })

	for range 2 { // the second build replaces the first
		build("linux/amd64,linux/arm64")
		var list struct {
			Manifests []struct{ Platform platform }
		}
		unmarshal(t, run(t, builder, "manifest", "inspect", image), &list)
		got := map[platform]bool{}
		for _, m := range list.Manifests {
			got[m.Platform] = true
		}
		if len(list.Manifests) != 2 || !got[platform{"linux", "amd64"}] || !got[platform{"linux", "arm64"}] {
			t.Errorf("the list has %v, want linux/amd64 and linux/arm64", list.Manifests)
		}
	}
}

// platform is the part of an image that names its system and architecture.
type platform struct{ OS, Architecture string }

// makeImage returns what make image would run.
func makeImage(t *testing.T, variables ...string) string {
	t.Helper()
	args := append([]string{"--dry-run", "--no-print-directory", "-C", root, "image", "BUILDER=buildah"}, variables...)
	return run(t, "make", args...)
}

// run returns what a command prints. Variables of a make that runs the tests do not reach it.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func unmarshal(t *testing.T, raw string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}
