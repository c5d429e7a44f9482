package agent_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs many tests at a time, whatever the number of processors: most of the time, they wait until an edge sends
// something again or notices that nothing comes.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
