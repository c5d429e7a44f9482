package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManual: packages ship man pages and shell completion.
func TestManual(t *testing.T) {
	folder := t.TempDir()
	if code, _, stderr := run(t, "man", folder); code != 0 {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(filepath.Join(folder, "mycloud-serve.1"))
	if err != nil || !strings.Contains(string(page), "data-dir") {
		t.Errorf("%v:\n%s", err, page)
	}
	if code, script, stderr := run(t, "completion", "bash"); code != 0 || !strings.Contains(script, "mycloud") {
		t.Errorf("exit code %d, stderr %q:\n%s", code, stderr, script)
	}
}
