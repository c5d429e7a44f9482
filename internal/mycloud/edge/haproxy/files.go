package haproxy

import "golang.org/x/sys/unix"

const (
	// mostFiles is enough for half a million connections. Where the number of open files is unlimited, it keeps
	// HAProxy's tables small.
	mostFiles = 1 << 20
	// spareFiles are for what HAProxy opens besides connections, listeners and checks.
	spareFiles = 400
	// filesPerCheck leaves a third of the files to connections. A check has two.
	filesPerCheck = 3
	// leastConnections is what HAProxy needs to be of use.
	leastConnections = 100
)

// openFiles returns how many files a process that this one starts may open, after an attempt to raise the limit.
func openFiles() int {
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

// connectionsFor returns how many connections HAProxy can serve at the same time with a number of open files. Each has
// two, as has each check; listeners have one. HAProxy computes it too, but does not start if there are many checks.
func connectionsFor(files int, p *plan) int {
	checks := 0
	for i := range p.backends {
		if p.backends[i].Monitor != nil {
			checks += len(p.backends[i].Servers)
		}
	}
	// Members that join until the next reload need some, too.
	return max((files-spareFiles-len(p.frontends))/2-checks-checks/8, leastConnections)
}
