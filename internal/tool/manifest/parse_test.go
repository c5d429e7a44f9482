package manifest_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/tool/manifest"
)

func services(apiVersion, kind string) bool { return apiVersion == "v1" && kind == "Service" }

// found returns the content of a file: Services by line and name, and problems.
func found(text string) (objects, problems []string) {
	f := manifest.Parse("f", []byte(text), services)
	for _, o := range f.Objects {
		svc, _ := manifest.Decode[corev1.Service](o)
		objects = append(objects, fmt.Sprintf("%d %s", o.Line, svc.Name))
	}
	for _, p := range f.Problems {
		problems = append(problems, p.String())
	}
	return objects, problems
}

const (
	a = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	b = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n"
	j = `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "j"}}`
)

func TestParse(t *testing.T) {
	const template = "; this looks like a template; render it first: helm template CHART | quayctl lint -f -"
	for name, tc := range map[string]struct {
		text              string
		objects, problems []string
	}{
		"nothing":       {text: ""},
		"only comments": {text: "# a\n---\n# b\n"},
		"one":           {text: a, objects: []string{"1 a"}},
		"two":           {text: a + "---\n" + b, objects: []string{"1 a", "5 b"}},
		"as Helm prints": {
			text:    "---\n# Source: x/y.yaml\n" + a + "---\n# Source: x/z.yaml\n---\n# Source: x/b.yaml\n" + b,
			objects: []string{"3 a", "10 b"},
		},
		"lines of Windows": {
			text: "apiVersion: v1\r\nkind: Service\r\nmetadata: {name: a}\r\n---\r\n" +
				"apiVersion: v1\r\nkind: Service\r\n",
			objects: []string{"1 a", "5 "},
		},
		"a mark at the start":  {text: "\uFEFF" + a, objects: []string{"1 a"}},
		"directive and end":    {text: "%YAML 1.1\n---\n" + a + "...\n", objects: []string{"3 a"}},
		"dashes inside a line": {text: a + "x: a --- b\n", objects: []string{"1 a"}},
		"more dashes":          {text: a + "----: x\n", objects: []string{"1 a"}},
		"after the dashes":     {text: a + "--- " + j, objects: []string{"1 a", "4 j"}},
		"JSON":                 {text: j, objects: []string{"1 j"}},
		"JSON after JSON":      {text: j + "\n\n" + j + j, objects: []string{"1 j", "3 j", "3 j"}},
		"JSON with half letters": {
			text:    `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "\ud83d\ude00"}}`,
			objects: []string{"1 😀"},
		},
		"JSON with tabs": {
			text: "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Service\"}", objects: []string{"1 "},
		},
		"other kinds": {
			text: "apiVersion: apps/v1\nkind: Deployment\n---\n" +
				"kind: Service\napiVersion: serving.knative.dev/v1\n",
		},
		"no objects": {
			text: "[a, b]\n---\ntext\n", problems: []string{
				"f:1: must be an object with apiVersion and kind; correct or remove the text",
				"f:3: must be an object with apiVersion and kind; correct or remove the text",
			},
		},
		"List": {
			text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n" +
				"- {apiVersion: v1, kind: Pod}\n- " + j + "\n",
			objects: []string{"4 a", "8 j"},
		},
		"List in a List": {
			text: "kind: List\nitems:\n- kind: List\n  items:\n  - " + j + "\n", objects: []string{"5 j"},
		},
		"ServiceList": {
			text: "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n", objects: []string{"4 a"},
		},
		"List without items": {text: "apiVersion: v1\nkind: List\nitems: none\n"},
		"anchors": {
			text:    "x: &meta {name: m}\napiVersion: v1\nkind: Service\nmetadata: {<<: *meta}\n",
			objects: []string{"1 m"},
		},
		"a broken one between": {
			text: a + "---\na: b: c\n---\n" + b, objects: []string{"1 a", "7 b"},
			problems: []string{"f:5: must be valid YAML or JSON: mapping values are not allowed in this context"},
		},
		"a template": {
			text:     a + "spec:\n  {{- if .x }}\n  y\n",
			problems: []string{"f:5: must be valid YAML or JSON: did not find expected node content" + template},
		},
		"a template that parses": {
			text:     a + "spec: {{ .x }}\n",
			problems: []string{"f:1: must be valid YAML or JSON: invalid map key" + template},
		},
		"self-reference": {
			text:     "apiVersion: v1\nkind: Service\nx: &a {<<: *a}\n",
			problems: []string{"f:1: must be valid YAML or JSON: anchor 'a' value contains itself"},
		},
		"JSON that ends too early": {
			text: j[:20], problems: []string{"f:1: must be valid YAML or JSON: did not find expected node content"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := found(tc.text)
			if diff := cmp.Diff(tc.objects, objects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// No input may cause a panic, or a position outside the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{a + "---\n" + b, j + j, "kind: List\nitems: [" + j + "]", "x: &a {<<: *a}",
		a + "spec: {ports: [{port: x}], <<: [*a]}", "- \"\\ud83d\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range manifest.Parse("f", data, func(string, string) bool { return true }).Objects {
			_, mistakes := manifest.Decode[corev1.Service](o)
			for _, m := range mistakes {
				if m.Place.Line < 1 || m.Place.Column < 1 || m.Place.Width < 1 {
					t.Errorf("%+v", m)
				}
			}
		}
	})
}
