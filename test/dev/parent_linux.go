package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stopWithParent makes the kernel send SIGTERM when the parent process terminates: a killed make cannot forward
// signals.
func stopWithParent() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
}
