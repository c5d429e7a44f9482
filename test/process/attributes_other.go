//go:build unix && !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes gives the child its own process group. Nothing here ties its life to this process: PID files do.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// startTime returns when a process started, as ps prints it.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("find process %d: %w", pid, err)
	}
	return strings.Join(strings.Fields(string(out)), "_"), nil
}
