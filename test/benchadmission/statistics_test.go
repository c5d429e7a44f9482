package main

import (
	"math"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	tests := map[string]struct {
		sorted []time.Duration
		p      float64
		want   float64
	}{
		"median of many":     {hundred, 50, 50},
		"tail of many":       {hundred, 99, 99},
		"greatest":           {hundred, 100, 100},
		"one":                {hundred[:1], 99, 1},
		"median of two":      {hundred[:2], 50, 1},
		"tail of a few":      {hundred[:10], 99, 10},
		"less than a second": {[]time.Duration{1500 * time.Microsecond}, 50, 1.5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percentile(test.sorted, test.p); got != test.want {
				t.Errorf("percentile() = %v, want %v", got, test.want)
			}
		})
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v", got)
	}
}

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"odd":  {[]float64{9, 1, 2}, 2},
		"even": {[]float64{8, 1, 2, 4}, 3},
		"one":  {[]float64{7}, 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := median(test.values); got != test.want {
				t.Errorf("median() = %v, want %v", got, test.want)
			}
		})
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v", got)
	}
}

// taken returns a sample with one figure.
func taken(round int, configuration string, concurrency int, value float64) *sample {
	return &sample{
		round: round, configuration: configuration, workload: loadBalancers, concurrency: concurrency,
		figures: map[figure]float64{p50: value},
	}
}

// The machine was busy in the second round: both configurations were ten times as slow. The ratio of the medians would
// be 20/2 = 10.
func TestRatioIsTakenWithinRounds(t *testing.T) {
	all := samples{
		taken(0, none, 8, 1), taken(0, floor, 8, 2),
		taken(1, none, 8, 10), taken(1, floor, 8, 20),
		taken(2, none, 8, 2), taken(2, floor, 8, 30),
		taken(0, none, 1, 7), taken(0, floor, 1, 7), // another concurrency
	}
	if got := all.ratio(floor, none, loadBalancers, 8, p50); got != 2 {
		t.Errorf("ratio() = %v, want the median of 2, 2 and 15", got)
	}
	if got := all.of(floor, loadBalancers, 8, p50); got != 20 {
		t.Errorf("of() = %v, want 20", got)
	}
	for name, got := range map[string]float64{
		"of another workload":      all.of(floor, clusterIPs, 8, p50),
		"ratio without base":       all.ratio(floor, stock, loadBalancers, 8, p50),
		"ratio of another one":     all.ratio(stock, none, loadBalancers, 8, p50),
		"ratio at another traffic": all.ratio(floor, none, loadBalancers, 200, p50),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s = %v, want none", name, got)
		}
	}
}
