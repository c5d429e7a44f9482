package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
	file := fmt.Sprintf("/proc/%d/status", pid)
	fields, err := table(file, ":")
	if err != nil {
		return Memory{}, err
	}
	var errs []error
	size := func(key string) int64 {
		kib, err := strconv.ParseInt(strings.TrimSuffix(fields[key], " kB"), 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s of %s: %w", key, file, err))
		}
		return kib << 10
	}
	m := Memory{Resident: size("VmRSS"), Anonymous: size("RssAnon"), File: size("RssFile"), Peak: size("VmHWM")}
	return m, errors.Join(errs...)
}

// ResetPeak makes the peak of a process's resident memory what it uses now; see proc_pid_clear_refs(5).
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Accepted returns how many TCP connections servers in this network namespace have accepted.
func Accepted() (int, error) {
	const file = "/proc/self/net/snmp"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	// Two lines for each protocol: the names of the counters and their values.
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "PassiveOpens" && i < len(fields) {
				return strconv.Atoi(fields[i])
			}
		}
	}
	return 0, fmt.Errorf("read %s: no PassiveOpens", file)
}

// Used returns the CPU time that all processes of the machine have used.
func Used() (Usage, error) {
	const file = "/proc/stat"
	fields, err := table(file, " ")
	if err != nil {
		return 0, err
	}
	// user, nice, system, idle, iowait, irq, softirq, in hundredths of a second; see proc_stat(5).
	var ticks int64
	for i, field := range strings.Fields(fields["cpu"]) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		if i < 7 && i != 3 && i != 4 {
			ticks += n
		}
	}
	return Usage(ticks * int64(time.Second/100)), nil
}

// Describe returns what is known about the machine; unknown facts are empty.
func Describe() Facts {
	facts := Facts{Cores: runtime.NumCPU()}
	if cpu, err := table("/proc/cpuinfo", ":"); err == nil {
		facts.Processor = cpu["model name"]
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		facts.Kernel = "Linux " + strings.TrimSpace(string(release))
	}
	if memory, err := table("/proc/meminfo", ":"); err == nil {
		if kib, err := strconv.ParseInt(strings.TrimSuffix(memory["MemTotal"], " kB"), 10, 64); err == nil {
			facts.Memory = kib << 10
		}
	}
	return facts
}

// table reads a file with one key and value in each line; the first line of a key counts.
func table(file, separator string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, separator)
		key = strings.TrimSpace(key)
		if _, known := values[key]; !known {
			values[key] = strings.TrimSpace(value)
		}
	}
	return values, nil
}
