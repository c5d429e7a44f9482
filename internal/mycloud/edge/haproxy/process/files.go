package process

import "golang.org/x/sys/unix"

// mostFiles is enough for half a million connections. Where the number of open files is unlimited, it keeps HAProxy's
// tables small.
const mostFiles = 1 << 20

// OpenFiles returns how many files a process that this one starts may open, after an attempt to raise the limit.
func OpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Max < mostFiles {
		// Only root may.
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit.Cur, Max: mostFiles})
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, mostFiles))
}
