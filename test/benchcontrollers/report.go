package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quaymaster.dev/test/benchadmission/machine"
)

// report is everything that a run has found out.
type report struct {
	options       *options
	facts         machine.Facts
	date          string
	measurements  [][]measurement
	demonstration demonstration

	mu       sync.Mutex
	versions []string
}

// setVersions sets the versions of the programs, which are the same in all clusters.
func (r *report) setVersions(versions []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions = versions
}

// all returns all measurements.
func (r *report) all() []measurement { return slices.Concat(r.measurements...) }

// markdown returns the report.
func (r *report) markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Measured on %s by `%s` with %s, on %d cores of %s with %s.\n\n", r.date, r.options.command,
		strings.Join(r.versions, ", "), r.facts.Cores, r.facts.Processor, r.facts.Kernel)
	r.writeCalls(&text)
	r.writeProcesses(&text)
	if r.options.demonstration {
		r.writeDemonstration(&text)
	}
	return strings.TrimSpace(text.String())
}

// name returns how tables name the controllers of a measurement.
func (m measurement) name() string {
	if m.stock {
		return "stock"
	}
	return "ours"
}

func (r *report) writeCalls(text *strings.Builder) {
	text.WriteString("### Calls of the cloud\n\n")
	head, line := []string{"Services / Nodes"}, []string{"controllers"}
	for _, m := range r.all() {
		head, line = append(head, m.size.String()), append(line, m.name())
	}
	row(text, head...)
	text.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	row(text, line...)
	for _, c := range []struct {
		what  string
		count func(measurement) string
	}{
		{"start, nothing changed", func(m measurement) string { return m.start.String() }},
		{"idle for 30 s", func(m measurement) string { return m.idle.String() }},
		{"– requests for changes meanwhile", func(m measurement) string { return fmt.Sprint(m.idle.polls) }},
		{"a Node is marked as ingress node", func(m measurement) string { return m.ingress.String() }},
		{"a Node's labels change: calls for load balancers", func(m measurement) string { return fmt.Sprint(m.other.lbs) }},
		{"an annotation of a Service changes", func(m measurement) string { return m.annotation.String() }},
		{"a foreign annotation changes: calls for load balancers", func(m measurement) string { return fmt.Sprint(m.foreign.lbs) }},
		{"500 Nodes join in 10 s", func(m measurement) string {
			if m.join == nil {
				return "–"
			}
			return m.join.String()
		}},
		{"– requests for changes meanwhile", func(m measurement) string {
			if m.join == nil {
				return "–"
			}
			return fmt.Sprint(m.join.polls)
		}},
	} {
		cells := []string{c.what}
		for _, m := range r.all() {
			cells = append(cells, c.count(m))
		}
		row(text, cells...)
	}
	fmt.Fprintf(text, "\n*w* are writes. *>* means that there were more calls when counting ended, %.0f s after a start "+
		"or %.0f s after Nodes had joined.\n\n", startBound.Seconds(), changeBound.Seconds())
}

// String returns the number of calls and how many of them are writes.
func (c counted) String() string {
	more := ""
	if c.cut {
		more = "> "
	}
	if c.writes == 0 {
		return fmt.Sprintf("%s%d", more, c.calls())
	}
	return fmt.Sprintf("%s%d (%d w)", more, c.calls(), c.writes)
}

func (r *report) writeProcesses(text *strings.Builder) {
	text.WriteString("### Memory and CPU time\n\n")
	row(text, "Services / Nodes", "controllers", "RSS", "of that anonymous", "CPU while idle, in cores")
	text.WriteString(strings.Repeat("|---", 5) + "|\n")
	for _, m := range r.all() {
		row(text, m.size.String(), m.name(), mebibytes(m.memory.Resident), mebibytes(m.memory.Anonymous), fmt.Sprintf("%.4f", m.cpu))
	}
	text.WriteString("\n")
}

func (r *report) writeDemonstration(text *strings.Builder) {
	d := r.demonstration
	fmt.Fprintf(text, "### %d Nodes that are not ready, and a cloud that is wrong\n\n", unready)
	row(text, "controllers", fmt.Sprintf("Nodes lost in %s", lying.Round(time.Second)))
	text.WriteString("|---|---|\n")
	row(text, "k8s.io/cloud-provider, over a provider that passes answers on", fmt.Sprint(d.plain))
	row(text, "ours", fmt.Sprint(d.ours))
	fmt.Fprintf(text, "\nWith ours, the Node of an instance that was really deleted was gone after %s.\n", d.gone)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

func row(text *strings.Builder, cells ...string) {
	fmt.Fprintf(text, "| %s |\n", strings.Join(cells, " | "))
}
