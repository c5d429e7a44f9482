//go:build unix && !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes makes the child lead its own process group. Only PID files help to end it if this process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// startTime returns when a process started, as printed by ps.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("find process %d: %w", pid, err)
	}
	return strings.Join(strings.Fields(string(out)), "_"), nil
}
