package manifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/tool/manifest"
)

// parsed returns the only object of a text.
func parsed(t *testing.T, text string) *manifest.Object {
	t.Helper()
	f := manifest.Parse("f", []byte(text), func(string, string) bool { return true })
	if len(f.Problems) > 0 || len(f.Objects) != 1 {
		t.Fatalf("%v, %d objects", f.Problems, len(f.Objects))
	}
	return f.Objects[0]
}

func TestExpand(t *testing.T) {
	o := parsed(t, "kind: A\nlist:\n- inner: [{x: 1}, {y: 1}, {x: 2}]\n- {}\n- inner: [{x: 3}]\n- inner: {x: 4}\nplain: {x: 5}\n")
	for path, want := range map[string][][]int{
		"plain.x": {nil}, "plain.y": nil, "plain[].x": nil, "list[].inner[].x": {{0, 0}, {0, 2}, {2, 0}}, "list[]": {{0}, {1}, {2}, {3}},
	} {
		if diff := cmp.Diff(want, o.Expand(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if got := o.Text("list[0].inner[2].x"); got != "2" {
		t.Errorf("got %q", got)
	}
	for text, want := range map[string]string{"x: null": "", "x: ~": "", "x:": "", "x: 'null'": "null", "y: 1": ""} {
		if got := parsed(t, "kind: A\n"+text+"\n").Text("x"); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestStrings(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		want     map[string]string
		mistakes []string
	}{
		"strings":    {"{a: x, b/c.d: \"1\"}", map[string]string{"a": "x", "b/c.d": "1"}, nil},
		"numbers":    {"{a: 010, b: yes}", map[string]string{"a": "010", "b": "yes"}, []string{"list[0].at[a]", "list[0].at[b]"}},
		"lists":      {"{a: [x], b: z}", map[string]string{"b": "z"}, []string{"list[0].at[a]"}},
		"duplicates": {"{a: x, a: z}", map[string]string{"a": "z"}, []string{"list[0].at[a]"}},
		"null":       {"{a: null}", map[string]string{"a": ""}, nil},
		"no map":     {"[a]", map[string]string{}, []string{"list[0].at"}},
		"merged":     {"{<<: {a: x}, b: z}", map[string]string{"a": "x", "b": "z"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, "kind: A\nlist:\n- at: "+tc.text+"\n")
			got, mistakes := o.Strings("list[0].at")
			var paths []string
			for _, m := range mistakes {
				paths = append(paths, m.Path)
				if m.Place.Line != 3 {
					t.Errorf("%s is in line %d", m.Path, m.Place.Line)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.mistakes, paths); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}
