package plan

import "math"

// longestPeriod is the longest time over which events are counted, in seconds.
const longestPeriod = 1000

// quota is a limit that HAProxy can count: an integer of events in an integer of seconds.
type quota struct {
	Events, Seconds int
}

// quotaOf returns the quota with the shortest period that differs by at most 1 % from a number of events per second.
// A share of a limit is often not an integer: three edges that share 100/s count 100 in 3 s each.
func quotaOf(perSecond float64) quota {
	if perSecond <= 0 || math.IsNaN(perSecond) {
		return quota{}
	}
	for seconds := 1; seconds <= longestPeriod; seconds++ {
		want := perSecond * float64(seconds)
		if events := math.Round(want); events >= 1 && math.Abs(events-want) <= want/100 {
			return quota{Events: int(min(events, math.MaxInt32)), Seconds: seconds}
		}
	}
	return quota{Events: 1, Seconds: longestPeriod}
}
