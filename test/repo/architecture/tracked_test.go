package architecture

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxTracked is the size of the largest file that may be committed. Every clone has all versions of every file forever.
const maxTracked = 1 << 20

// programs are the first bytes of executable files and archives of object files: ELF, Mach-O, PE and ar.
var programs = [][]byte{
	[]byte("\x7fELF"), []byte("\xcf\xfa\xed\xfe"), []byte("\xca\xfe\xba\xbe"), []byte("MZ"), []byte("!<arch>\n"),
}

// TestTrackedFiles: no program and no large file is committed.
func TestTrackedFiles(t *testing.T) {
	const root = "../../.."
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a clone:", err)
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z")
	cmd.Stderr = t.Output()
	listed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00")
	if !slices.Contains(names, "go.mod") {
		t.Fatal("go.mod is not tracked: the test checks nothing")
	}
	for _, name := range names {
		problem, err := unwanted(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		} else if problem != "" {
			t.Errorf("%s %s; run git rm --cached %[1]s", name, problem)
		}
	}
}

// unwanted returns why a file must not be committed; empty if it may be.
func unwanted(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // deleted, and the deletion is not staged yet
		return "", nil
	case err != nil || !info.Mode().IsRegular():
		return "", err
	case info.Size() > maxTracked:
		return "is larger than 1 MiB", nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	head := make([]byte, 8)
	n, err := file.Read(head)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if slices.ContainsFunc(programs, func(magic []byte) bool { return bytes.HasPrefix(head[:n], magic) }) {
		return "is a program", nil
	}
	return "", nil
}
