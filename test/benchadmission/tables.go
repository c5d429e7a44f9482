package main

import (
	"fmt"
	"strings"
	"time"

	"quaymaster.dev/test/benchadmission/machine"
)

// markdown returns the report.
func (r *report) markdown() string {
	requests := 0
	failures := 0
	for _, s := range r.samples {
		requests += s.requests
		failures += len(s.errors)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Measured on %s by `%s` with %s, on %d cores of %s with %s and %s.\n", r.date, r.command,
		strings.Join(r.versions, ", "), r.facts.Cores, orUnknown(r.facts.Processor), mebibytes(r.facts.Memory), orUnknown(r.facts.Kernel))
	fmt.Fprintf(&text, "The API server calls webhooks %s.\n", r.network)
	fmt.Fprintf(&text, "%d interleaved rounds, %s for each measurement, %d requests, %d errors. ", r.rounds, r.duration, requests, failures)
	fmt.Fprintf(&text, "During the rounds, other processes used %.0f %% of the machine's CPU time.\n\n", 100*r.others)
	r.writeConfigurations(&text)
	for _, concurrency := range r.concurrency {
		r.writeCreates(&text, concurrency)
	}
	r.writeUnaffected(&text)
	r.writeProcesses(&text)
	r.writeAttacks(&text)
	r.writeGoals(&text)
	return strings.TrimSpace(text.String())
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown kind"
	}
	return s
}

func mebibytes(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
	}
	return number(float64(bytes)/(1<<20)) + " MiB"
}

// row writes a row of a table.
func row(text *strings.Builder, cells ...string) {
	fmt.Fprintf(text, "| %s |\n", strings.Join(cells, " | "))
}

// head writes the head of a table.
func head(text *strings.Builder, cells ...string) {
	row(text, cells...)
	fmt.Fprintf(text, "%s|\n", strings.Repeat("|---", len(cells)))
}

func (r *report) writeConfigurations(text *strings.Builder) {
	head(text, "configuration", "what decides on a Service")
	for _, c := range r.configurations {
		row(text, c.name, c.about)
	}
	text.WriteString("\n")
}

// writeCreates writes the table of creates of LoadBalancer Services by a number of concurrent clients.
func (r *report) writeCreates(text *strings.Builder, concurrency int) {
	fmt.Fprintf(text, "### %d concurrent client%s\n\n", concurrency, plural(concurrency))
	head(text, "configuration", "p50 ms", "p95 ms", "p99 ms", "creates/s", "p50 ÷ none", "creates/s ÷ none", "p50 ÷ floor",
		"p99 ÷ floor", "webhook CPU, µs per create", "÷ floor", "API server CPU, µs per create", "÷ none",
		"calls per create", "handshakes per 1000 creates")
	for _, c := range r.configurations {
		of := func(f figure) string { return number(r.samples.of(c.name, loadBalancers, concurrency, f)) }
		ratio := func(base string, f figure) string {
			return number(r.samples.ratio(c.name, base, loadBalancers, concurrency, f))
		}
		row(text, c.name, of(p50), of(p95), of(p99), of(throughput), ratio(none, p50), ratio(none, throughput), ratio(floor, p50),
			ratio(floor, p99), onlyOf(c, of(webhookCPU)), onlyOf(c, ratio(floor, webhookCPU)), of(serverCPU), ratio(none, serverCPU),
			of(calls), of(handshakes))
	}
	text.WriteString("\n")
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// onlyOf returns a cell that is empty if the configuration has no webhook.
func onlyOf(c *configuration, cell string) string {
	if c.server == nil {
		return "–"
	}
	return cell
}

// writeUnaffected writes the table of requests that the webhooks must not slow down.
func (r *report) writeUnaffected(text *strings.Builder) {
	if !r.has(quaymaster) {
		return
	}
	text.WriteString("### Requests that cause no call\n\n")
	text.WriteString("The same requests with and without Quaymaster's webhook configurations.\n\n")
	head(text, "request", "concurrent clients", "p50 ms, none", "p50 ms, quaymaster", "p50 ÷ none", "p99 ÷ none", "requests/s ÷ none",
		"API server CPU ÷ none", "calls")
	for _, w := range []workload{clusterIPs, statusWrites} {
		for _, concurrency := range r.concurrency {
			ratio := func(f figure) string { return number(r.samples.ratio(quaymaster, none, w, concurrency, f)) }
			row(text, string(w), fmt.Sprint(concurrency), number(r.samples.of(none, w, concurrency, p50)),
				number(r.samples.of(quaymaster, w, concurrency, p50)), ratio(p50), ratio(p99), ratio(throughput), ratio(serverCPU),
				number(r.samples.of(quaymaster, w, concurrency, calls)))
		}
	}
	text.WriteString("\n")
}

func (r *report) has(name string) bool {
	for _, c := range r.configurations {
		if c.name == name {
			return true
		}
	}
	return false
}

// writeProcesses writes the table of the webhooks' processes.
func (r *report) writeProcesses(text *strings.Builder) {
	text.WriteString("### Processes\n\n")
	text.WriteString("Resident memory with its anonymous and file-backed parts, certificate in files.\n\n")
	head(text, "webhook", "start to first review, ms", "RSS idle", "RSS after load", "reviews", "CPU while idle, ms/s")
	for _, s := range r.servers {
		row(text, s.name, number(s.start()), memory(s.idle), memory(s.loaded), fmt.Sprintf("%.0f", s.reviews),
			number(milliseconds(s.idleCPU)))
	}
	text.WriteString("\n")
}

// start returns the median time in milliseconds from the start of the process to its first answer.
func (s *server) start() float64 {
	var values []float64
	for _, d := range s.starts {
		values = append(values, milliseconds(d))
	}
	return median(values)
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func memory(m machine.Memory) string {
	return fmt.Sprintf("%s (%s + %s)", mebibytes(m.Resident), mebibytes(m.Anonymous), mebibytes(m.File))
}

// writeAttacks writes the table of attacks on Quaymaster.
func (r *report) writeAttacks(text *strings.Builder) {
	if len(r.attacks) == 0 {
		return
	}
	text.WriteString("### Under attack\n\n")
	fmt.Fprintf(text, "Creates by %d ordinary client%s during an attack, compared with undisturbed ones of the same round.\n\n", victims,
		plural(victims))
	head(text, "attack", "p50 ÷ undisturbed", "p99 ÷ undisturbed", "creates/s ÷ undisturbed", "p99 ÷ undisturbed, without webhooks",
		"failed creates", "memory of the webhook", "its CPU for one hostile call, ms")
	for _, a := range r.attacks {
		call := "–"
		if a.review != nil {
			call = number(milliseconds(a.call))
		}
		row(text, a.name, number(median(a.p50)), number(median(a.p99)), number(median(a.throughput)),
			number(median(a.unhookedP99)), fmt.Sprint(a.failures), "+ "+mebibytes(a.extra), call)
	}
	text.WriteString("\n")
}
