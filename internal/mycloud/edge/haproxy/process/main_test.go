package process

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestMain keeps the process alive if its output is not read to the end, as by head: the programs that the tests have
// started would go on without it.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	m.Run()
}
