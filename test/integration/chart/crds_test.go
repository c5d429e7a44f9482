package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

const definition = "CustomResourceDefinition"

// generated returns the CRDs generated from the types of the API, by name.
func generated(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "charts", "quaymaster", "files", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// JSON numbers get the same Go types as in the API server's decoder.
		raw, err = yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crd := &unstructured.Unstructured{}
		if err := crd.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[crd.GetName()] = crd
	}
	return found
}

// TestDefinitions checks that the chart renders the generated CRDs, and only adds labels and annotations.
func TestDefinitions(t *testing.T) {
	const keep = "helm.sh/resource-policy"
	for name, want := range map[string]string{"default": "keep", "webhooks-with-cloud": ""} {
		t.Run(name, func(t *testing.T) {
			left := generated(t)
			for _, object := range render(t, cases()[name]) {
				if object.GetKind() != definition {
					continue
				}
				annotations := object.GetAnnotations()
				if annotations[keep] != want {
					t.Errorf("%s has %s %q, want %q", object.GetName(), keep, annotations[keep], want)
				}
				if object.GetLabels()["app.kubernetes.io/name"] != release {
					t.Errorf("%s has the labels %v", object.GetName(), object.GetLabels())
				}
				delete(annotations, keep)
				object.SetAnnotations(annotations)
				object.SetLabels(nil)
				if diff := cmp.Diff(left[object.GetName()], object); diff != "" {
					t.Errorf("%s (-generated +rendered):\n%s", object.GetName(), diff)
				}
				delete(left, object.GetName())
			}
			if len(left) > 0 {
				t.Errorf("not rendered: %v", left)
			}
		})
	}
}

// TestDefinitionsMatchAPI checks for obsolete CRDs, which the generator does not delete.
func TestDefinitionsMatchAPI(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for kind := range scheme.KnownTypes(v1alpha1.GroupVersion()) {
		if strings.HasSuffix(kind, "PolicyList") {
			want = append(want, strings.TrimSuffix(kind, "List"))
		}
	}
	for _, crd := range generated(t) {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		got = append(got, kind)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-API +definitions):\n%s", diff)
	}
}

func TestNoDefinitions(t *testing.T) {
	for _, object := range render(t, cases()["webhooks-only"]) {
		if object.GetKind() == definition {
			t.Errorf("%s is rendered although crds.enabled is false", object.GetName())
		}
	}
}
