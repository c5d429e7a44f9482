package brakes

import (
	"slices"
	"time"
)

// Budget limits how much of something may go within a window: a share of all there is, and always one.
type Budget struct {
	Percent int
	Window  time.Duration
}

// Limit returns how many of all may go, which include those that went within the window.
func (b Budget) Limit(all int) int { return max(1, all*b.Percent/100) }

// Account counts what goes at the expense of a budget, in memory: for work that a restart may begin to count again. What
// must be counted across restarts is in Brake.Spent.
type Account struct {
	Budget

	// spent are the times at which something went, oldest first.
	spent []time.Time
}

// Spend counts n more that go.
func (a *Account) Spend(n int, now time.Time) {
	a.spent = append(a.spent, slices.Repeat([]time.Time{now}, n)...)
}

// Room returns how many of those that are left may go now.
func (a *Account) Room(left int, now time.Time) int {
	a.spent = slices.DeleteFunc(a.spent, func(at time.Time) bool { return now.Sub(at) >= a.Window })
	return max(0, a.Limit(left+len(a.spent))-len(a.spent))
}

// Next returns the time until there is more room than at the last call of Room; 0 if it does not depend on time.
func (a *Account) Next(now time.Time) time.Duration {
	if len(a.spent) == 0 {
		return 0
	}
	return a.spent[0].Add(a.Window).Sub(now)
}
