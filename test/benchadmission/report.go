package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/benchadmission/results"
)

// report is everything that a run has found out.
type report struct {
	facts          machine.Facts
	date, command  string
	versions       []string
	network        string
	rounds         int
	duration       time.Duration
	concurrency    []int
	configurations []*configuration
	servers        []*server
	samples        samples
	attacks        []*attack
	// others is the share of the machine's CPU time that other processes used.
	others float64

	used machine.Usage
	own  time.Duration
	at   time.Time
}

// newReport describes the run before the first round.
func (b *bench) newReport(ctx context.Context) (*report, error) {
	o := b.options
	r := &report{
		facts: machine.Describe(), date: time.Now().UTC().Format(time.DateOnly), command: o.command, rounds: o.rounds,
		duration: o.duration, concurrency: o.concurrency, configurations: b.configurations, servers: b.servers, at: time.Now(),
	}
	r.network = fmt.Sprintf("through a URL with the address %s of the machine", b.network.own)
	if o.isolated {
		r.network = fmt.Sprintf("through URLs with addresses in %s in a network namespace", addresses.Masked())
		if b.network.via == viaService {
			r.network = "through Services, as the chart installs them, in a network namespace in which their cluster IPs are local"
		}
	}
	var err error
	if r.versions, err = results.Versions(ctx, b.Env, "sigs.k8s.io/controller-runtime"); err != nil {
		return nil, err
	}
	if r.used, err = machine.Used(); err != nil {
		return nil, err
	}
	r.own, err = b.ownCPU()
	return r, err
}

// ownCPU returns the CPU time of the benchmark and its processes.
func (b *bench) ownCPU() (time.Duration, error) {
	pids := []int{os.Getpid()}
	for _, p := range b.Processes() {
		if p.Exit() == nil {
			pids = append(pids, p.PID())
		}
	}
	var sum time.Duration
	for _, pid := range pids {
		used, err := machine.CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// finish completes the report after the last round.
func (r *report) finish(b *bench) error {
	used, err := machine.Used()
	if err != nil {
		return err
	}
	own, err := b.ownCPU()
	if err != nil {
		return err
	}
	all := float64(time.Since(r.at)) * float64(r.facts.Cores)
	r.others = max(0, float64(time.Duration(used-r.used)-(own-r.own))/all)
	return nil
}

// failed returns an error if a request failed.
func (r *report) failed() error {
	var failures []string
	for _, s := range r.samples {
		for _, failure := range s.errors {
			failures = append(failures, fmt.Sprintf("%s, %s, concurrency %d: %s", s.configuration, s.workload, s.concurrency, failure))
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed, so the results are not valid:\n%s", len(failures),
		strings.Join(failures[:min(5, len(failures))], "\n"))
}

// number formats a figure with about three significant digits, or a dash for one that was not measured.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == 0:
		return "0"
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
