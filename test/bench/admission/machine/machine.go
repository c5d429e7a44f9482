// Package machine reads what processes use. It works on Linux.
package machine

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Memory is the resident memory of a process in bytes.
type Memory struct {
	// Resident is the sum of Anonymous, of files that are mapped, such as the program itself, and of shared memory.
	Resident, Anonymous int64
	// Peak is the most resident memory since the start of the process, or since ResetPeak.
	Peak int64
}

// CPU returns the CPU time that a process has used, with threads that have ended, to the nanosecond.
func CPU(pid int) (time.Duration, error) {
	// The clock of another process, as clock_getcpuclockid(3) computes it.
	const schedulerClock = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedulerClock, &used); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// MemoryOf returns the resident memory of a process.
func MemoryOf(pid int) (Memory, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Memory{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Memory{}, err
	}
	return Memory{Resident: int64(status.VmRSS), Anonymous: int64(status.RssAnon), Peak: int64(status.VmHWM)}, nil
}

// ResetPeak makes the peak of a process's resident memory what it uses now; see proc_pid_clear_refs(5).
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Accepted returns how many TCP connections servers in this network namespace have accepted.
func Accepted() (float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, err
	}
	counters, err := self.Snmp()
	if err != nil {
		return 0, err
	}
	return *counters.PassiveOpens, nil
}
