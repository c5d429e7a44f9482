package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/test/harness/env"
)

// TestREADME checks that the table of values in the chart's README matches the comments in values.yaml, from which it
// is generated.
func TestREADME(t *testing.T) {
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "charts", "quaymaster")
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "README.md")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const heading = "## Values\n\n"
	head, _, found := strings.Cut(string(raw), heading)
	if !found {
		t.Fatalf("%s has no section %q", file, "Values")
	}
	want := head + heading + table(t, string(values))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("README is not up to date; run go test ./test/integration/chart -update (-want +got):\n%s", diff)
	}
}

// key is a line such as "  replicas: 2".
var key = regexp.MustCompile(`^( *)([A-Za-z0-9]+):(?: (.*))?$`)

// table returns a row for every key with a comment. Keys of the first two levels must have one.
func table(t *testing.T, values string) string {
	t.Helper()
	rows := "| Value | Default | Meaning |\n|---|---|---|\n"
	var path, comment []string
	for line := range strings.Lines(values) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			comment = append(comment, text)
			continue
		}
		match := key.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		path = append(path[:len(match[1])/2], match[2])
		switch {
		case len(comment) > 0:
			value := ""
			if match[3] != "" {
				value = "`" + match[3] + "`"
			}
			rows += fmt.Sprintf("| `%s` | %s | %s |\n", strings.Join(path, "."), value, strings.Join(comment, " "))
		case len(path) < 3:
			t.Errorf("values.yaml: %s has no comment", strings.Join(path, "."))
		}
		comment = nil
	}
	return rows
}
