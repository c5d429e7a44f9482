package soak_test

import (
	"slices"
	"testing"

	"quaymaster.dev/test/harness/soak"
)

// What one process prints, another one can add up.
func TestCounts(t *testing.T) {
	var c soak.Counts
	c.Note("sequences", 1)
	c.Note("etcd-restores", 0)
	c.Note("steps", 2)
	c.Note("steps", 3)
	read, ok := soak.Read("    random_test.go:60: random sequences: seed=7 " + c.String() + "\n--- PASS")
	if !ok || !slices.Equal(read, c) || read.String() != "sequences=1 etcd-restores=0 steps=5" {
		t.Errorf("%s is read as %s", c, read)
	}
	read.Add(c)
	if read.String() != "sequences=2 etcd-restores=0 steps=10" {
		t.Errorf("the sum is %s", read)
	}
	if runs, total := soak.Sum("soak: seed=7 " + c.String() + "\nother\nsoak: seed=8 " + c.String() + "\n"); runs != 2 || !slices.Equal(total, read) {
		t.Errorf("the sum of %d runs is %s", runs, total)
	}
	if _, ok := soak.Read("panic: no counts"); ok {
		t.Error("output without counts has some")
	}
}
