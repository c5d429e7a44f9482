package haproxy

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"quaymaster.dev/test/harness/parallel"
)

// TestMain runs several tests at a time, whatever the number of processors: they mostly wait for HAProxy's processes. Those
// that measure time or memory run alone. It also keeps the process alive if its output is not read to the end, as by head:
// the programs that the tests have started would go on without it.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(parallel.Main(m, 4))
}
