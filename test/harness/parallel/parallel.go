// Package parallel runs more tests at a time than there are processors, because they mostly wait.
package parallel

import (
	"flag"
	"strconv"
	"testing"
)

// Main runs the tests of a package, so many of those that call t.Parallel at a time, and returns the exit code for os.Exit.
func Main(m *testing.M, tests int) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
	return m.Run()
}
