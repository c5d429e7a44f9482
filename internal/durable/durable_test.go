package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"quaymaster.dev/internal/durable"
)

// A file is replaced as a whole, only its owner can read it, and neither a failure nor an interruption leaves anything else.
func TestReplace(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "state")
	// What an interrupted call has left.
	if err := os.WriteFile(path+".new", []byte("half a long sta"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"first", "second, longer", "3"} {
		if err := durable.Replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("read %q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := os.Mkdir(filepath.Join(folder, "blocked"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(filepath.Join(folder, "blocked"), []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 {
		t.Errorf("files %v, error %v", left, err)
	}
}
