package main

import (
	"math"
	"slices"
	"time"
)

// figure is a quantity that a measurement yields.
type figure string

const (
	p50        figure = "p50 ms"
	p95        figure = "p95 ms"
	p99        figure = "p99 ms"
	throughput figure = "requests/s"
	webhookCPU figure = "webhook CPU µs" // per request
	serverCPU  figure = "API server CPU µs"
	calls      figure = "calls" // per request
	handshakes figure = "handshakes"
)

// percentile returns a percentile of sorted durations in milliseconds: the smallest one that is at least as long as p
// percent of them.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(p/100*float64(len(sorted)))) - 1
	return float64(sorted[max(0, i)].Nanoseconds()) / 1e6
}

// median returns the median, or NaN of no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// samples are the results of all rounds.
type samples []*sample

// of returns the median of a figure over the rounds; NaN if it was not measured.
func (all samples) of(configuration string, w workload, concurrency int, f figure) float64 {
	var values []float64
	for _, s := range all {
		if s.configuration == configuration && s.workload == w && s.concurrency == concurrency {
			values = append(values, s.figures[f])
		}
	}
	return median(values)
}

// ratio returns the median of the ratios of two configurations in the same round. Rounds of a busy machine differ more
// from each other than configurations in a round.
func (all samples) ratio(configuration, base string, w workload, concurrency int, f figure) float64 {
	bases := map[int]float64{}
	for _, s := range all {
		if s.configuration == base && s.workload == w && s.concurrency == concurrency {
			bases[s.round] = s.figures[f]
		}
	}
	var values []float64
	for _, s := range all {
		if s.configuration != configuration || s.workload != w || s.concurrency != concurrency {
			continue
		}
		if base := bases[s.round]; base > 0 {
			values = append(values, s.figures[f]/base)
		}
	}
	return median(values)
}
