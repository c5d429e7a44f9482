package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is a bound for a result.
type goal struct {
	what    string
	atLeast bool
	bound   float64
	// values are the results by what they belong to, in the order of names.
	names  []string
	values []float64
}

func (g *goal) add(name string, value float64) {
	if !math.IsNaN(value) {
		g.names, g.values = append(g.names, name), append(g.values, value)
	}
}

// met reports whether all values reach the goal, as they are printed.
func (g *goal) met() bool {
	for _, v := range g.values {
		v = math.Round(100*v) / 100
		if g.atLeast && v < g.bound || !g.atLeast && v > g.bound {
			return false
		}
	}
	return true
}

// writeGoals writes the table of goals with the results of this run.
func (r *report) writeGoals(text *strings.Builder) {
	text.WriteString("### Goals\n\n")
	head(text, "goal", "result", "met")
	for _, g := range r.goals() {
		if len(g.values) == 0 {
			continue
		}
		sign, met := "≤", "no"
		if g.atLeast {
			sign = "≥"
		}
		if g.met() {
			met = "yes"
		}
		var results []string
		for i, name := range g.names {
			results = append(results, strings.TrimSpace(number(g.values[i])+" "+name))
		}
		row(text, fmt.Sprintf("%s %s %s", g.what, sign, number(g.bound)), strings.Join(results, ", "), met)
	}
	text.WriteString("\n")
}

func (r *report) goals() []*goal {
	ratio := func(what, configuration, base string, w workload, f figure, bound float64, among ...int) *goal {
		g := &goal{what: what, bound: bound, atLeast: f == throughput}
		for _, concurrency := range r.concurrency {
			for _, wanted := range among {
				if concurrency == wanted {
					g.add(fmt.Sprintf("at %d", concurrency), r.samples.ratio(configuration, base, w, concurrency, f))
				}
			}
		}
		return g
	}
	goals := []*goal{
		ratio("webhook CPU per create ÷ floor", quaymaster, floor, loadBalancers, webhookCPU, 0.75, 1, 8, 32),
		ratio("the same with 10 policies", tenPolicies, floor, loadBalancers, webhookCPU, 0.85, 1, 8, 32),
		ratio("the same with all catalogs", manyCatalogs, floor, loadBalancers, webhookCPU, 0.85, 1, 8, 32),
		ratio("p50 ÷ floor", quaymaster, floor, loadBalancers, p50, 1, 8, 32),
		ratio("p99 ÷ floor", quaymaster, floor, loadBalancers, p99, 1.1, 8, 32),
		ratio("creates/s ÷ none", quaymaster, none, loadBalancers, throughput, 0.5, 8),
		ratio("p50 of ClusterIP creates ÷ none", quaymaster, none, clusterIPs, p50, 1.05, r.concurrency...),
		ratio("p50 of status writes ÷ none", quaymaster, none, statusWrites, p50, 1.05, r.concurrency...),
	}
	uncalled := &goal{what: "calls per ClusterIP create and status write"}
	for _, w := range []workload{clusterIPs, statusWrites} {
		for _, concurrency := range r.concurrency {
			if value := r.samples.of(quaymaster, w, concurrency, calls); !math.IsNaN(value) {
				uncalled.values = append(uncalled.values, value)
			}
		}
	}
	if len(uncalled.values) > 0 {
		uncalled.names, uncalled.values = []string{"at most"}, []float64{slices.Max(uncalled.values)}
	}
	goals = append(goals, uncalled)
	for _, c := range r.configurations {
		if c.name != quaymaster && c.name != manyCatalogs {
			continue
		}
		idle, loaded, start := 40.0, 48.0, 30.0
		if c.name == manyCatalogs {
			idle, loaded, start = 56, 56, 40
		}
		one := func(what string, bound, value float64) *goal {
			g := &goal{what: what + " of " + c.name, bound: bound}
			g.add("", value)
			return g
		}
		goals = append(goals,
			one("RSS idle in MiB", idle, float64(c.server.idle.Resident)/(1<<20)),
			one("RSS after load in MiB", loaded, float64(c.server.loaded.Resident)/(1<<20)),
			one("start to first review in ms", start, c.server.start()),
			one("CPU while idle in ms/s", 0.2, milliseconds(c.server.idleCPU)),
		)
	}
	if len(r.attacks) > 0 {
		call := &goal{what: "CPU for one hostile call in ms", bound: 50}
		extra := &goal{what: "memory that attacks add in MiB", bound: 64}
		failed := &goal{what: "creates that fail during attacks"}
		var calls, extras, failures []float64
		for _, a := range r.attacks {
			calls = append(calls, milliseconds(a.call))
			extras = append(extras, float64(a.extra)/(1<<20))
			failures = append(failures, float64(a.failures))
		}
		call.add("at most", slices.Max(calls))
		extra.add("at most", slices.Max(extras))
		failed.add("at most", slices.Max(failures))
		goals = append(goals, call, extra, failed)
	}
	return append(goals, ratio("p50 of the exported policies ÷ floor", cel, floor, loadBalancers, p50, 1, 1, 8, 32))
}
