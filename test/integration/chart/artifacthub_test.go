package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

// TestArtifactHub: Artifact Hub can read the annotations of Chart.yaml. They list the image that the chart installs, all
// CRDs, and examples that other tests apply.
func TestArtifactHub(t *testing.T) {
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct{ Annotations map[string]string }
	decodeFile(t, filepath.Join(root, "charts", "quaymaster", "Chart.yaml"), &metadata)

	var images []struct {
		Name, Image string
		Platforms   []string
	}
	annotation(t, metadata.Annotations, "images", &images)
	listed, installed := map[string]bool{}, map[string]bool{}
	for _, one := range images {
		listed[one.Image] = true
	}
	for _, pod := range pods(t, render(t, env.Values{})) {
		for _, container := range pod.Spec.Containers {
			installed[container.Image] = true
		}
	}
	if diff := cmp.Diff(installed, listed); diff != "" {
		t.Errorf("images (-installed +listed):\n%s", diff)
	}

	type definition struct{ Kind, Version, Name, DisplayName, Description string }
	var definitions []definition
	annotation(t, metadata.Annotations, "crds", &definitions)
	got, want := map[string]definition{}, map[string]definition{}
	for _, one := range definitions {
		if one.DisplayName == "" {
			t.Errorf("%s has no name to display", one.Name)
		}
		one.DisplayName = ""
		got[one.Name] = one
	}
	for name, crd := range generated(t) {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		latest := versions[len(versions)-1].(map[string]any)
		version, _, _ := unstructured.NestedString(latest, "name")
		description, _, _ := unstructured.NestedString(latest, "schema", "openAPIV3Schema", "description")
		want[name] = definition{Kind: kind, Version: version, Name: name, Description: strings.ReplaceAll(description, "\n", " ")}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CRDs (-chart +listed):\n%s", diff)
	}

	var examples, files []map[string]any
	annotation(t, metadata.Annotations, "crdsExamples", &examples)
	for _, name := range []string{"policy-cluster.yaml", "policy-namespace.yaml"} {
		var example map[string]any
		decodeFile(t, filepath.Join(root, "examples", name), &example)
		files = append(files, example)
	}
	if diff := cmp.Diff(files, examples); diff != "" {
		t.Errorf("examples of CRDs (-files +listed):\n%s", diff)
	}

	var links []struct{ Name, URL string }
	annotation(t, metadata.Annotations, "links", &links)
	for _, link := range links {
		page := strings.TrimSuffix(strings.TrimPrefix(link.URL, "https://quaymaster.dev/"), ".html") + ".md"
		if _, err := os.Stat(filepath.Join(root, page)); err != nil || link.Name == "" {
			t.Errorf("link %q to %s: %v", link.Name, link.URL, err)
		}
	}

	var repository struct{ RepositoryID *string }
	if decodeFile(t, filepath.Join(root, "charts", "artifacthub-repo.yml"), &repository); repository.RepositoryID == nil {
		t.Error("artifacthub-repo.yml has no place for the ID")
	}
}

func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// annotation decodes the YAML in an annotation for Artifact Hub, whose fields must be known.
func annotation(t *testing.T, annotations map[string]string, name string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(annotations["artifacthub.io/"+name]), into); err != nil {
		t.Fatalf("artifacthub.io/%s: %v", name, err)
	}
}
