package haproxy

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestMain runs several tests at a time, whatever the number of processors: they mostly wait for HAProxy's processes. Those
// that measure time or memory run alone. It also keeps the process alive if its output is not read to the end, as by head:
// the programs that the tests have started would go on without it.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}
