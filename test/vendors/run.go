package vendors

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Report is the result of a run.
type Report struct {
	Cases int `json:"cases"`
	// Agree counts the Services on which catalog and vendor agree; Explained those on which they differ, with an
	// explanation; Skipped those that neither looks at; Different all others.
	Agree     int `json:"agree"`
	Explained int `json:"explained"`
	Skipped   int `json:"skipped"`
	Different int `json:"different"`
	// Refused counts the Services among Agree that both refuse.
	Refused int `json:"refused"`

	// Differences has one minimal Service for each cause.
	Differences []*Difference `json:"-"`
}

// Difference is a Service on which catalog and vendor differ.
type Difference struct {
	Class  Class
	Number int
	// Cases is how many Services differ for this reason.
	Cases int

	svc     *corev1.Service
	outcome outcome
}

const (
	// batch is the number of Services that a judge gets at once.
	batch = 500
	// maxDifferences bounds the causes that are reported.
	maxDifferences = 40
)

// Run compares a number of generated Services.
func Run(g *Generator, c *Comparison, judge Judge, cases int) (*Report, error) {
	r := &Report{}
	bySignature := map[string]*Difference{}
	for first := 0; first < cases; first += batch {
		var generated []Case
		for number := first; number < min(first+batch, cases); number++ {
			generated = append(generated, g.Case(number))
		}
		services := all(generated, func(one Case) *corev1.Service { return stored(one.Service) })
		verdicts, err := judge.Judge(services)
		if err != nil {
			return nil, fmt.Errorf("cases from %d: %w", first, err)
		}
		for i, one := range generated {
			o := c.compare(services[i], verdicts[i])
			r.count(o)
			if o.result != different {
				continue
			}
			if known := bySignature[o.signature()]; known != nil {
				known.Cases++
				continue
			}
			d := &Difference{Class: one.Class, Number: first + i, Cases: 1, svc: one.Service, outcome: o}
			bySignature[o.signature()] = d
			if len(r.Differences) < maxDifferences {
				r.Differences = append(r.Differences, d)
			}
		}
	}
	err := r.shrink(c, judge)
	return r, err
}

func (r *Report) count(o outcome) {
	r.Cases++
	switch o.result {
	case agree:
		r.Agree++
		if o.verdict.Error != "" {
			r.Refused++
		}
	case explained:
		r.Explained++
	case skipped:
		r.Skipped++
	case different:
		r.Different++
	}
	for _, e := range o.explanations {
		e.uses++
	}
}

// shrink makes the Services of the differences minimal, and joins those that then have the same cause.
func (r *Report) shrink(c *Comparison, judge Judge) error {
	minimal := map[string]*Difference{}
	for _, d := range r.Differences {
		var err error
		if d.svc, d.outcome, err = c.shrink(judge, d.svc, d.outcome); err != nil {
			return fmt.Errorf("shrink case %d: %w", d.Number, err)
		}
		if known := minimal[d.outcome.signature()]; known != nil {
			known.Cases += d.Cases
			d.Cases = 0
			continue
		}
		minimal[d.outcome.signature()] = d
	}
	r.Differences = slices.DeleteFunc(r.Differences, func(d *Difference) bool { return d.Cases == 0 })
	return nil
}

// Write writes the differences, each with its minimal Service and both verdicts.
func (r *Report) Write(w io.Writer) error {
	for i, d := range r.Differences {
		manifest, err := yaml.Marshal(d.svc)
		if err != nil {
			return fmt.Errorf("encode a Service: %w", err)
		}
		says := "finds nothing that the controller refuses"
		for j, f := range d.outcome.findings {
			if j == 0 {
				says = "finds:"
			}
			says += fmt.Sprintf("\n#   %s (%s) %s: %s", f.ID, f.Outcome, f.Field, f.Message)
		}
		text := strings.NewReplacer("status:\n  loadBalancer: {}\n", "", "    targetPort: 0\n", "").Replace(string(manifest))
		if _, err := fmt.Fprintf(w, "# Difference %d: %d cases, first is %d (%s)\n# The catalog %s\n# The vendor's code %s\n%s---\n",
			i+1, d.Cases, d.Number, d.Class, says, oneLine(d.outcome.verdict.String()), text); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
