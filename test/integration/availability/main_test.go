package availability_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs all tests at a time, whatever the number of processors: most of the time, they wait for leases to expire and
// for replicas to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
