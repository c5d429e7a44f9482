package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes makes the child lead its own process group and die with this process. The kernel sends the signal when the
// thread that started the child ends; the Go runtime keeps its threads unless a goroutine locks one and returns, which
// does not happen here.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime returns when a process started, in the kernel's clock ticks since boot, with the ID of that boot. Together
// with the process ID, it identifies a process uniquely.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	// The second field, the name in parentheses, may contain spaces and parentheses; the state follows it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const startField = 22 - 3 // proc_pid_stat(5) counts from 1, fields starts with the third
	if len(fields) <= startField {
		return "", fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	if fields[0] == "Z" {
		return "", fmt.Errorf("process %s has ended", strconv.Itoa(pid))
	}
	return fields[startField] + "@" + strings.TrimSpace(string(boot)), nil
}
