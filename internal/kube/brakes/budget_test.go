package brakes

import (
	"testing"
	"time"
)

func TestAccount(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		spent []time.Duration // ago
		left  int
		want  int
		next  time.Duration
	}{
		"one may always go":           {left: 1, want: 1},
		"even if there is none":       {want: 1},
		"a fifth":                     {left: 10, want: 2},
		"rounded down":                {left: 9, want: 1},
		"of those before":             {spent: []time.Duration{time.Minute}, left: 9, want: 1, next: 9 * time.Minute},
		"used up":                     {spent: []time.Duration{time.Minute}, left: 8, next: 9 * time.Minute},
		"exceeded, as others left":    {spent: []time.Duration{2 * time.Minute, time.Minute}, left: 1, next: 8 * time.Minute},
		"before the window":           {spent: []time.Duration{11 * time.Minute}, left: 8, want: 1},
		"at the beginning of it":      {spent: []time.Duration{10 * time.Minute}, left: 8, want: 1},
		"one before, one in the time": {spent: []time.Duration{11 * time.Minute, time.Minute}, left: 9, want: 1, next: 9 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := Account{Budget: Budget{Percent: 20, Window: 10 * time.Minute}}
			for _, ago := range tc.spent {
				a.Spend(1, start.Add(-ago))
			}
			if got := a.Room(tc.left, start); got != tc.want {
				t.Errorf("%d may go, want %d", got, tc.want)
			}
			if got := a.Next(start); got != tc.next {
				t.Errorf("next after %v, want %v", got, tc.next)
			}
		})
	}
}
