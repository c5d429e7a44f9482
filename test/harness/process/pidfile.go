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

// reapLimit bounds how long Reap waits for a killed process to end.
const reapLimit = 10 * time.Second

func writePIDFile(path string, pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", pid, started), 0o600)
}

// Reap kills the processes that are named by PID files in a directory, removes the files and returns the names of the
// killed processes. If a process has ended, or its ID now belongs to another process, only the file is removed. A
// missing directory counts as empty.
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

// livePID reads a PID file and returns the process ID, or 0 if that process has ended.
func livePID(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	number, started, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return 0, nil // incomplete after a crash
	}
	now, err := startTime(pid)
	if err != nil || now != started {
		return 0, nil
	}
	return pid, nil
}

// killGroup kills a process group and waits until its leader has ended.
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
	return fmt.Errorf("kill process %d: still running after %s", pid, reapLimit)
}
