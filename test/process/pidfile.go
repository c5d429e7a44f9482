package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reapLimit is how long Reap waits for a killed process to disappear.
const reapLimit = 10 * time.Second

func writePIDFile(path string, pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", pid, started), 0o600)
}

// Reap kills the processes that the PID files in a directory name and removes the files. A file whose process has
// ended, or whose number belongs to another process by now, is only removed. It returns the names of what it killed;
// a missing directory is an empty one.
func Reap(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	if err != nil {
		return nil, fmt.Errorf("list PID files: %w", err)
	}
	var killed []string
	var errs []error
	for _, file := range files {
		pid, err := livePID(file)
		if err == nil && pid != 0 {
			err = killGroup(pid)
			killed = append(killed, strings.TrimSuffix(filepath.Base(file), ".pid"))
		}
		if err == nil {
			err = os.Remove(file)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return killed, errors.Join(errs...)
}

// livePID reads a PID file and returns its process id, or 0 when that process is gone.
func livePID(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	number, started, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return 0, nil // torn by the crash that left it behind
	}
	now, err := startTime(pid)
	if err != nil || now != started {
		return 0, nil
	}
	return pid, nil
}

// killGroup kills the group a child leads and waits until the leader is gone.
func killGroup(pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return nil
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(reapLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now, err := startTime(pid); err != nil || now != started {
			return nil
		}
	}
	return fmt.Errorf("kill process %d: still there after %s", pid, reapLimit)
}
