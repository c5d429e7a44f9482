package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/tool/manifest"
)

func TestNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"d/b.yaml", "d/a.yml", "d/c.json", "d/notes.txt", "d/below/d.yaml",
		"d/.hidden/e.yaml", "f"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d", "link"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		paths     []string
		recursive bool
		want      string
		problems  []string
	}{
		"folder":    {paths: []string{"d"}, want: "d/a.yml d/b.yaml d/c.json"},
		"recursive": {paths: []string{"./d/"}, recursive: true, want: "d/a.yml d/b.yaml d/below/d.yaml d/c.json"},
		"link":      {paths: []string{"link"}, want: "link/a.yml link/b.yaml link/c.json"},
		"file":      {paths: []string{"f"}, want: "f"},
		"hidden":    {paths: []string{"d/.hidden"}, want: "d/.hidden/e.yaml"},
		"each once": {paths: []string{"d/b.yaml", "-", "d", "-"}, want: "d/b.yaml - d/a.yml d/c.json"},
		"missing, and f": {
			paths: []string{"missing", "f"}, want: "f", problems: []string{"missing: stat: no such file or directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			names, found := manifest.Names(tc.paths, tc.recursive)
			var problems []string
			for _, p := range found {
				problems = append(problems, p.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(names, " ")); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadKeepsTheOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	var names []string
	for name := range strings.SplitSeq("abcdefghijklmnop", "") {
		if err := os.WriteFile(name, []byte(j), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	names = append(names, "missing", manifest.Stdin)
	var got []string
	for _, f := range manifest.Read(names, strings.NewReader(j), services) {
		got = append(got, f.Name)
		if (len(f.Objects) == 1) == (f.Name == "missing") || (len(f.Problems) == 1) != (f.Name == "missing") {
			t.Errorf("%+v", f)
		}
	}
	names[len(names)-1] = "stdin"
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
