package availability_test

import (
	"os"
	"testing"

	"quaymaster.dev/test/harness/parallel"
)

// TestMain runs all tests at a time, whatever the number of processors: most of the time, they wait for leases to expire and
// for replicas to end.
func TestMain(m *testing.M) { os.Exit(parallel.Main(m, 8)) }
