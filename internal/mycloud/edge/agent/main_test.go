package agent_test

import (
	"os"
	"testing"

	"quaymaster.dev/test/harness/parallel"
)

// TestMain runs many tests at a time, whatever the number of processors: most of the time, they wait until an edge sends
// something again or notices that nothing comes.
func TestMain(m *testing.M) { os.Exit(parallel.Main(m, 16)) }
