package ingressnode

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBrake(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		percent, members int
		// left are the times since begin at which members left, at is the time since begin.
		left []time.Duration
		at   time.Duration
		want int
		next time.Duration
	}{
		"what happened before is unknown": {percent: 10, members: 100, at: 59 * time.Second, next: time.Second},
		"a tenth":                         {percent: 10, members: 100, at: time.Minute, want: 10},
		"at least one":                    {percent: 10, members: 3, at: time.Minute, want: 1},
		"rounded down":                    {percent: 10, members: 29, at: time.Minute, want: 2},
		"of the members before": {
			percent: 10, members: 95, left: slices.Repeat([]time.Duration{2 * time.Minute}, 5), at: 150 * time.Second, want: 5, next: 30 * time.Second,
		},
		"used up":          {percent: 10, members: 2, left: []time.Duration{2 * time.Minute}, at: 2 * time.Minute, next: time.Minute},
		"after the window": {percent: 10, members: 2, left: []time.Duration{2 * time.Minute}, at: 3 * time.Minute, want: 1},
		"without limit":    {percent: 100, members: 100, want: 100, next: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrake(tc.percent, begin)
			for _, at := range tc.left {
				b.left.Spend(1, begin.Add(at))
			}
			now := begin.Add(tc.at)
			if got := b.allowance(now, tc.members); got != tc.want {
				t.Errorf("%d members may leave, want %d", got, tc.want)
			}
			if got := b.next(now); got != tc.next {
				t.Errorf("next after %v, want %v", got, tc.next)
			}
		})
	}
}

func TestDepart(t *testing.T) {
	for name, tc := range map[string]struct {
		current, wanted, released string
		allowance                 int
		want, held                string
		joined                    bool
	}{
		"nothing changes":                  {current: "a b", wanted: "a b", want: "a b"},
		"within the allowance":             {current: "a b c", wanted: "a", allowance: 2, want: "a"},
		"beyond the allowance":             {current: "a b c d", wanted: "a", allowance: 1, want: "a c d", held: "c d"},
		"released leave at once":           {current: "a b c", wanted: "a", released: "b c", want: "a"},
		"even the last one":                {current: "a b", wanted: "", released: "a b", want: ""},
		"the last one stays otherwise":     {current: "a b", wanted: "", allowance: 5, want: "b", held: "b"},
		"draining is no member that stays": {current: "a b", wanted: "a~", allowance: 5, want: "a~ b", held: "b"},
		"others join first": {
			current: "a b", wanted: "c", allowance: 5, want: "c a b", held: "a b", joined: true,
		},
		"released leave while others join": {current: "a b", wanted: "c", released: "a b", allowance: 5, want: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			released := func(id string) bool { return slices.Contains(strings.Fields(tc.released), id) }
			d := depart(listed(tc.current), listed(tc.wanted), released, tc.allowance)
			if diff := cmp.Diff(listed(tc.want), d.members); diff != "" {
				t.Errorf("unexpected members (-want +got):\n%s", diff)
			}
			if got := strings.Join(d.held, " "); got != tc.held || d.joined != tc.joined {
				t.Errorf("held %q, joined %t; want %q, %t", got, d.joined, tc.held, tc.joined)
			}
			if want := max(0, len(strings.Fields(tc.current))-len(strings.Fields(tc.want))); tc.released == "" && !tc.joined && d.braked != want {
				t.Errorf("%d left at the expense of the brake, want %d", d.braked, want)
			}
		})
	}
}

// listed returns members by ID; a tilde marks those that drain.
func listed(ids string) []Member {
	var list []Member
	for id := range strings.FieldsSeq(ids) {
		plain, draining := strings.CutSuffix(id, "~")
		list = append(list, Member{InstanceID: plain, Draining: draining})
	}
	return list
}
