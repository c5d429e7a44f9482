package machine_test

import (
	"os"
	"testing"
	"time"

	"quaymaster.dev/test/bench/admission/machine"
)

// The figures are those of the process that asks.
func TestFigures(t *testing.T) {
	before, err := machine.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
		// Use CPU time.
	}
	after, err := machine.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("the CPU time is %s before and %s after work", before, after)
	}
	m, err := machine.MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.Anonymous <= 0 || m.Resident <= m.Anonymous || m.Peak < m.Resident {
		t.Errorf("memory %+v", m)
	}
	if err := machine.ResetPeak(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := machine.Accepted(); err != nil {
		t.Error(err)
	}
}
