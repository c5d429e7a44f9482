//go:build !race

package webhook_test

import "testing"

// Allocations are exact, unlike times: more of them are a decision, and fewer are written down. The race detector
// allocates, too.
func TestAllocations(t *testing.T) {
	for _, c := range calls(t) {
		t.Run(c.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(200, c.server(t)); got != c.allocations {
				t.Errorf("%v allocations, want %v", got, c.allocations)
			}
		})
	}
}
