package app_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The controllers are another program in the same folder. That it runs is tested in test/integration/controllers.
func TestControllersWithoutProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(self), "quaymaster-controllers")
	code, stdout, stderr := run(t, "controllers", "--cloud-config=x")
	want := "quaymaster controllers: run " + program +
		": no such file or directory; install it in the folder of quaymaster\n"
	if code != 1 || stdout != "" || stderr != want {
		t.Errorf("exit code %d, stdout %q, stderr\n%swant\n%s", code, stdout, stderr, want)
	}
}
