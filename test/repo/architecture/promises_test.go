package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inPackage = regexp.MustCompile("in `([a-z0-9/]+)`")
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// TestPromises: every test that docs/explanation/safety.md names exists in the package that it names: after the test, in
// the same row or sentence, or else in the head of the table.
func TestPromises(t *testing.T) {
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "docs", "explanation", "safety.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, table := 0, ""
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		lines := strings.Split(block, "\n")
		if strings.HasPrefix(block, "|") {
			table = folder(lines[0])
		} else {
			lines, table = []string{strings.Join(lines, " ")}, ""
		}
		for _, line := range lines {
			for _, at := range testName.FindAllStringSubmatchIndex(line, -1) {
				name := line[at[2]:at[3]]
				found++
				in := folder(line[at[1]:])
				if in == "" {
					in = table
				}
				if in == "" || !exists(t, filepath.Join(root, filepath.FromSlash(in)), name) {
					t.Errorf("%s: no such test in %q", name, in)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d tests found", found)
	}
}

// folder returns the first package that a text names, or an empty string.
func folder(text string) string {
	if match := inPackage.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	return ""
}

// exists reports whether a package has a test.
func exists(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
