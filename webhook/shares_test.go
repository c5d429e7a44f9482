package webhook

import (
	"fmt"
	"testing"
)

// fill takes units until there are no more for the holder.
func fill(s *shares, caller, part string) (taken int) {
	for s.take(caller, 1) {
		if part != "" && !s.enter(caller, part) {
			s.giveBack(caller, 1)
			break
		}
		taken++
	}
	return taken
}

// A caller, path or namespace that takes all it can get leaves something for the others.
func TestSharesAreFair(t *testing.T) {
	tests := map[string]struct{ caller, part string }{
		"another part of the same caller":     {"10.0.0.1", "/mutate-service"},
		"the same part of another caller":     {"10.0.0.2", "/validate-service"},
		"another namespace of another caller": {"10.0.0.2", "shop"},
	}
	for name, victim := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShares(100)
			if n := fill(s, "10.0.0.1", "/validate-service"); n < 20 || n > 50 {
				t.Errorf("one part of one caller got %d of 100", n)
			}
			if n := fill(s, victim.caller, victim.part); n < 5 {
				t.Errorf("the victim got %d", n)
			}
		})
	}
	s := newShares(100)
	for i := range 5 {
		if n := fill(s, fmt.Sprintf("10.0.0.%d", i), ""); n == 0 {
			t.Errorf("caller %d got nothing", i)
		}
	}
}

// What is returned can be taken again, and nothing is remembered about those who hold nothing.
func TestSharesAreReturned(t *testing.T) {
	s := newShares(10)
	for range 3 {
		n := fill(s, "a", "")
		if n != 5 || !s.enter("a", "/path") {
			t.Fatalf("got %d", n)
		}
		s.leave("a", "/path")
		s.giveBack("a", int64(n))
	}
	if len(s.held) != 0 || s.left != 10 {
		t.Errorf("%d holders, %d left", len(s.held), s.left)
	}
}
