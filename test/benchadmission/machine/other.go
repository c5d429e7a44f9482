//go:build !linux

package machine

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
	"time"
)

var errUnsupported = errors.New("the admission benchmark reads /proc, which only Linux has")

// Isolated returns a command that cannot be started.
func Isolated(_ context.Context, path string, _ ...string) *exec.Cmd {
	return &exec.Cmd{Path: path, Err: errUnsupported}
}

// Connect fails.
func Connect(netip.Prefix) error { return errUnsupported }

// CPU fails.
func CPU(int) (time.Duration, error) { return 0, errUnsupported }

// MemoryOf fails.
func MemoryOf(int) (Memory, error) { return Memory{}, errUnsupported }

// Accepted fails.
func Accepted() (int, error) { return 0, errUnsupported }

// Used fails.
func Used() (Usage, error) { return 0, errUnsupported }

// Describe returns the number of cores.
func Describe() Facts { return Facts{Cores: runtime.NumCPU()} }

// ResetPeak fails.
func ResetPeak(int) error { return errUnsupported }
