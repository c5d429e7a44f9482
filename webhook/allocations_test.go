//go:build !race

package webhook_test

import (
	"runtime/debug"
	"testing"
)

// Allocations are exact, unlike times: more of them are a decision, and fewer are written down. The race detector
// allocates, too.
func TestAllocations(t *testing.T) {
	// The garbage collector empties the pools, so that some runs would allocate more.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, c := range calls(t) {
		t.Run(c.name, func(t *testing.T) {
			// The average is rounded down, and maps, whose seeds are random, allocate a little more or less.
			if got := testing.AllocsPerRun(200, c.server(t)); got != c.allocations && got != c.allocations-1 {
				t.Errorf("%v allocations, want %v", got, c.allocations)
			}
		})
	}
}
