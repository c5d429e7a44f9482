package edge_test

import (
	"flag"
	"fmt"
	"testing"

	"quaymaster.dev/test/harness/soak"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak runs")

// TestSoak plays sequences of TestWorlds for as long as -soak says. It reports which steps a failing sequence needs.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("it runs only with -soak")
	}
	s := soak.Test{
		// A sequence has two edges with four HAProxys, which share the machine: a second sequence would take their time.
		Name: "TestWorlds", Args: []string{"-full"}, Workers: 1, Batch: 1, Length: 100, Plays: 40,
		Repeat: func(seed uint64, steps string) string {
			return fmt.Sprintf("make replay-edge SEED=%d STEPS=%s", seed, steps)
		},
	}
	t.Logf("soak: seed=%d %s", *seed, s.Run(t, *seed, *soakFor))
}
