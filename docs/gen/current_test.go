package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCurrent: the files in docs/reference are what make generate writes.
func TestCurrent(t *testing.T) {
	t.Chdir(root)
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		if runtime.GOOS != "linux" && name == "mycloud-edge.md" {
			continue // the command has no flags there
		}
		got, err := os.ReadFile(filepath.Join("docs", "reference", name))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/reference/%s is not current; run make generate (-generated +file):\n%s", name, diff)
		}
	}
}
