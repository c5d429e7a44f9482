package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// queue is a set of requests that take turns, and keeps those that it gets.
type queue struct {
	*turns
	// given are the callers in the order in which they got their turns.
	given []string
}

func newQueue(total int) *queue { return &queue{turns: newTurns(total)} }

// arrive lets n requests of the caller arrive, one after the other.
func (q *queue) arrive(ctx context.Context, caller string, n int) {
	for range n {
		go func() {
			if q.take(ctx, caller) {
				q.given = append(q.given, caller)
			}
		}()
		synctest.Wait()
	}
}

// leave ends one turn of the caller and returns the caller that got it, if any.
func (q *queue) leave(caller string) string {
	before := len(q.given)
	q.giveBack(caller)
	synctest.Wait()
	if len(q.given) == before {
		return ""
	}
	return q.given[before]
}

// However many requests of one caller wait, the next turn is for another one.
func TestTurnsAreFair(t *testing.T) {
	for _, total := range []int{1, 2, 16} {
		t.Run(fmt.Sprint(total), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				q := newQueue(total)
				q.arrive(ctx, "greedy", total+200)
				if len(q.given) != total {
					t.Fatalf("%d requests got one of %d turns", len(q.given), total)
				}
				for round := range 5 {
					q.arrive(ctx, "victim", 1)
					if got := q.leave("greedy"); got != "victim" {
						t.Fatalf("round %d: the turn was for %q", round, got)
					}
					if got := q.leave("victim"); got != "greedy" {
						t.Fatalf("round %d: then the turn was for %q", round, got)
					}
				}
			})
		})
	}
}

// Callers who all want more than there is end up with equal parts, and take turns if there are fewer turns than callers.
func TestTurnsAreShared(t *testing.T) {
	callers := []string{"a", "b", "c", "d"}
	for _, total := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(total), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				q := newQueue(total)
				for _, caller := range callers {
					q.arrive(ctx, caller, 100)
				}
				for i := range 40 + total {
					q.leave(q.given[i])
				}
				counts := map[string]int{}
				for _, caller := range q.given[len(q.given)-40:] {
					counts[caller]++
				}
				for _, caller := range callers {
					if counts[caller] != 10 {
						t.Errorf("%v of the last 40 turns, want 10 each", counts)
					}
				}
			})
		})
	}
}

// New callers do not keep those away that already wait.
func TestTurnsAreForOldCallersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := newQueue(1)
		q.arrive(ctx, "old", 50)
		for i := range 20 {
			newcomer := fmt.Sprintf("new-%d", i)
			q.arrive(ctx, newcomer, 1)
			if got := q.leave("old"); got != newcomer {
				t.Fatalf("the turn was for %q, want %q", got, newcomer)
			}
			q.arrive(ctx, newcomer+"-later", 1)
			if got := q.leave(newcomer); got != "old" {
				t.Fatalf("the turn was for %q, want the old caller", got)
			}
			if got := q.leave("old"); got != newcomer+"-later" {
				t.Fatalf("the turn was for %q, want %q", got, newcomer+"-later")
			}
			if got := q.leave(newcomer + "-later"); got != "old" {
				t.Fatalf("the turn was for %q, want the old caller", got)
			}
		}
	})
}

// Requests whose time ends get no turn and leave nothing behind.
func TestTurnsThatComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		q.arrive(t.Context(), "a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		q.arrive(ctx, "b", 3)
		q.arrive(t.Context(), "c", 1)
		cancel()
		synctest.Wait()
		if got := q.leave("a"); got != "c" {
			t.Errorf("the turn was for %q", got)
		}
		ctx, cancel = context.WithCancel(t.Context())
		q.arrive(ctx, "b", 1)
		// Both at once: whether the request uses the turn or not, it is given back.
		cancel()
		if q.leave("c") == "b" {
			q.leave("b")
		}
		if len(q.lines) != 0 || q.left != 1 {
			t.Errorf("%v, %d left", q.lines, q.left)
		}
	})
}

// Requests of one caller get their turns in order of arrival.
func TestTurnsOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		turns.take(t.Context(), "a")
		var got []int
		for i := range 5 {
			go func() {
				if turns.take(t.Context(), "a") {
					got = append(got, i)
				}
			}()
			synctest.Wait()
		}
		for range 6 {
			turns.giveBack("a")
			synctest.Wait()
		}
		if !slices.Equal(got, []int{0, 1, 2, 3, 4}) || turns.left != 1 {
			t.Errorf("order %v, %d left", got, turns.left)
		}
	})
}
