package main

import (
	"io"

	"quaymaster.dev/test/bench/admission/results"
)

// The controllers that are compared, as results name them.
const (
	ours  = "ours"
	stock = "stock"
)

// units tells benchstat that everything is measured once: numbers of calls are exact.
const units = `Unit calls assume=exact
Unit writes assume=exact
Unit lb-calls assume=exact
Unit polls assume=exact
Unit unfinished assume=exact
Unit cpu-sec/s assume=exact
Unit resident-B assume=exact
Unit anonymous-B assume=exact
Unit lost-nodes assume=exact
Unit gone-sec assume=exact
`

// write writes the results of a measurement.
func (m *measurement) write(w io.Writer) {
	name := func(what string) string { return what + "/size=" + m.size.String() + "/controllers=" + m.controllers }
	for _, c := range []struct {
		what    string
		counted *counted
	}{
		{"Start", &m.start},
		{"Idle", &m.idle},
		{"MarkIngressNode", &m.ingress},
		{"LabelNode", &m.other},
		{"AnnotateService", &m.annotation},
		{"AnnotateServiceForeign", &m.foreign},
		{"JoinNodes", m.join},
	} {
		if c.counted != nil {
			results.Write(w, name(c.what), 1, c.counted.figures()...)
		}
	}
	results.Write(w, name("Idle"), 1, append(results.Memory(m.memory), results.Value{Number: m.cpu, Unit: "cpu-sec/s"})...)
}

// figures returns the numbers of calls. Those that were cut off are marked as unfinished.
func (c *counted) figures() []results.Value {
	list := []results.Value{
		{Number: float64(c.calls()), Unit: "calls"},
		{Number: float64(c.writes), Unit: "writes"},
		{Number: float64(c.lbs), Unit: "lb-calls"},
		{Number: float64(c.polls), Unit: "polls"},
	}
	if c.cut {
		list = append(list, results.Value{Number: 1, Unit: "unfinished"})
	}
	return list
}
