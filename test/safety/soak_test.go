package safety

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"quaymaster.dev/test/harness/soak"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak runs")

// TestSoak plays random sequences for as long as -soak says, each batch in a process of its own. It reports which steps a
// failing sequence needs.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("it runs only with -soak")
	}
	s := soak.Test{
		Name: "TestRandom", Args: []string{"-kinds=" + *kinds},
		// The more steps a sequence has, the less time goes into starting worlds and waiting for their end.
		Workers: runtime.NumCPU(), Batch: 10, Length: 240, Plays: 80,
		Repeat: func(seed uint64, steps string) string {
			return fmt.Sprintf("make replay SEED=%d KINDS=%s STEPS=%s", seed, *kinds, steps)
		},
	}
	figure(t, "soak: seed=%d %s", *seed, s.Run(t, *seed, *soakFor))
	if *figures == "" {
		return
	}
	raw, err := os.ReadFile(*figures)
	if err != nil {
		t.Fatal(err)
	}
	runs, total := soak.Sum(string(raw))
	t.Logf("soak: %d runs in %s: %s", runs, *figures, total)
}
