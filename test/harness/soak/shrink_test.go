package soak

import (
	"slices"
	"testing"
)

// Of a sequence that fails because of a few steps, these are left.
func TestShrink(t *testing.T) {
	needed := []int{3, 41, 42, 77}
	steps, times := shrink(100, 200, func(steps []int) bool {
		return !slices.ContainsFunc(needed, func(n int) bool { return !slices.Contains(steps, n) })
	})
	if !slices.Equal(steps, needed) {
		t.Errorf("after %d plays, steps %v are left, want %v", times, steps, needed)
	}
	if again := Steps(join(steps), 100); !slices.Equal(again, needed) {
		t.Errorf("steps %v are read as %v", needed, again)
	}
	if steps, times := shrink(100, 200, func([]int) bool { return false }); steps != nil || times != 3 {
		t.Errorf("a sequence that does not fail again has steps %v after %d plays", steps, times)
	}
}
