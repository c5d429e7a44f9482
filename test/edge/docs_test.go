package edge_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quaymaster.dev/test/harness/env"
)

// Each mechanism that keeps tenants from each other names a test that there is.
func TestMechanismsNameTheirTests(t *testing.T) {
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "explanation", "data-plane.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What a tenant can do to others\n")
	section, _, _ = strings.Cut(section, "\n### In random worlds\n")
	there := map[string]bool{}
	for _, folder := range []string{"internal/mycloud/edge", "test/edge"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
				there[match[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := 0
	heading := ""
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "### ") {
			heading = line
		}
		if !strings.HasPrefix(heading, "### Through") || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what a tenant does") {
			continue
		}
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, match := range tests {
			if named++; !there[match[1]] {
				t.Errorf("there is no %s: %s", match[1], line)
			}
		}
	}
	if named < 40 {
		t.Errorf("%d tests are named", named)
	}
}
