package template_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/template"
)

// Built-in templates are complete, and name the catalogs of their kinds.
func TestBuiltIn(t *testing.T) {
	for _, one := range template.BuiltIn() {
		if problems := one.Problems(); len(problems) > 0 || one.Resource == "" {
			t.Errorf("%+v: %q", one, problems)
		}
		var want []string
		for _, name := range library.BuiltIn().Names() {
			if c, _ := library.BuiltIn().Find(name); slices.Contains(c.Kinds, one.Kind) {
				want = append(want, name)
			}
		}
		if diff := cmp.Diff(want, one.Catalogs); diff != "" {
			t.Errorf("catalogs of %s (-want +got):\n%s", one.Kind, diff)
		}
	}
}

func TestProblems(t *testing.T) {
	valid := template.Template{Group: "example.com", Kind: "Shop", Annotations: "spec.doors[].annotations"}
	for name, tc := range map[string]struct {
		change func(*template.Template)
		want   []string
	}{
		"valid":       {func(t *template.Template) { t.Type, t.Types = "spec.doors[].type", []string{"public"} }, nil},
		"no path":     {func(t *template.Template) { t.Annotations = "" }, []string{"must have a group, a kind and the path of annotations"}},
		"no types":    {func(t *template.Template) { t.Type = "spec.type" }, []string{"must have both type and types, or neither"}},
		"other lists": {func(t *template.Template) { t.Class = "spec.walls[].class" }, []string{"must have no list in spec.walls[].class that is not in spec.doors[].annotations"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := valid
			tc.change(&changed)
			if diff := cmp.Diff(tc.want, changed.Problems()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A template of a user may name catalogs for a place that a built-in one has, without a finding twice.
func TestOf(t *testing.T) {
	ingress := template.Template{Group: "networking.k8s.io", Kind: "Ingress", Annotations: "metadata.annotations", Catalogs: []string{"gce", "own"}}
	service := template.Template{Group: "networking.k8s.io", Kind: "Ingress", Annotations: "metadata.annotations"}
	ofIngresses := []string{"agic", "alb", "cilium-ingress", "gce", "tencent-ingress"}
	got := template.Of(slices.Concat(template.BuiltIn(), []template.Template{ingress, service, service}), "networking.k8s.io/v1", "Ingress")
	if len(got) != 2 || got[1].Catalogs != nil || !slices.Equal(got[0].Catalogs, append(ofIngresses, "own")) {
		t.Errorf("got %+v", got)
	}
	if builtIn := template.Of(template.BuiltIn(), "networking.k8s.io/v1", "Ingress"); !slices.Equal(builtIn[0].Catalogs, ofIngresses) {
		t.Errorf("the built-in one has changed: %+v", builtIn)
	}
}

func TestFill(t *testing.T) {
	if got := template.Fill("list[].inner[].x", []int{0, 2}); got != "list[0].inner[2].x" {
		t.Errorf("got %q", got)
	}
	if got := template.Fill("list[].kind", []int{1, 2}); got != "list[1].kind" {
		t.Errorf("got %q", got)
	}
}

func TestValue(t *testing.T) {
	v := template.Value{"list": []any{
		map[string]any{"inner": []any{map[string]any{"a": map[string]any{"x": "y", "n": 1}}, "text"}}, map[string]any{"kind": "k", "inner": "text"},
	}}
	if diff := cmp.Diff([][]int{{0, 0}}, v.Expand("list[].inner[].a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"x": "y"}, v.Strings("list[0].inner[0].a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{"list[1].kind": "k", "list[0].kind": "", "list[2].kind": "", "list[-1].kind": "", "list": "", "other.kind": "", "list[1].inner[0].a": ""} {
		if got := v.Text(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// The fields of an object are those of every element, and of a patch none is known.
func TestValuesOf(t *testing.T) {
	one := template.Template{Fields: []string{"spec.name", "spec.list[].inner[].x", "spec.words[]"}}
	object := template.Value{"spec": map[string]any{
		"list": []any{
			map[string]any{"inner": []any{map[string]any{"x": "a"}, map[string]any{"x": "b"}}},
			map[string]any{"inner": []any{map[string]any{"x": "c"}, map[string]any{}}},
		},
		"words": []any{"d", ""},
	}}
	want := map[string][]string{"spec.name": nil, "spec.list[].inner[].x": {"a", "b", "c"}, "spec.words[]": {"d"}}
	if diff := cmp.Diff(want, one.ValuesOf(object)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := one.ValuesOf(template.Value{"metadata": map[string]any{"name": "a"}}); got != nil {
		t.Errorf("a patch has values %v", got)
	}
}

// The conditions of catalogs for other kinds use only fields of their templates: otherwise they would never hold.
func TestFieldsOfConditions(t *testing.T) {
	for _, one := range template.BuiltIn() {
		for _, name := range one.Catalogs {
			c, _ := library.BuiltIn().Find(name)
			for _, a := range c.Document().Annotations {
				conditions := a.ReadIf
				for _, q := range a.Requires {
					conditions = slices.Concat(conditions, q.If, q.Any)
				}
				for _, condition := range conditions {
					if condition.Field != "" && !slices.Contains(one.Fields, condition.Field) {
						t.Errorf("%s: %s uses the field %s", name, a.Name, condition.Field)
					}
				}
			}
		}
	}
}
