package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary play both programs of the image, by the name under which it is called.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "quaymaster":
		main()
	case "quaymaster-controllers":
		var signal int32
		err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
		fmt.Fprint(os.Stdout, signal, err)
	default:
		os.Exit(m.Run())
	}
}

// A harness that asks the kernel to kill quaymaster when the harness dies must not leave the controllers behind, which
// replace the process.
func TestControllersDieWithTheirParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "quaymaster")
	for _, name := range []string{program, program + "-controllers"} {
		if err := os.Link(self, name); err != nil {
			t.Skip(err) // such as another file system
		}
	}
	want := fmt.Sprint(int(syscall.SIGKILL), error(nil))
	for range 20 { // without a remedy, it depends on the thread that the scheduler chooses
		cmd := exec.CommandContext(t.Context(), program, "controllers")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		got, err := cmd.Output()
		if err != nil || string(got) != want {
			t.Fatalf("the controllers have the parent-death signal %q, want %q: %v", got, want, err)
		}
	}
}
