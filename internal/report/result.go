// Package report shows what was found in objects: to people, to programs and to code hosts.
package report

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"quaymaster.dev/internal/finding"
)

// Result is what was found in one object.
type Result struct {
	// File has the object and Line is where it begins there; neither of them for an object of a cluster.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Object Object `json:"object"`
	// Findings are in the order of the source.
	Findings []Finding `json:"findings"`
	// Defaults are what admission would add, if that was asked for.
	Defaults []Default `json:"defaults,omitempty"`
}

// Object names an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Finding is one problem.
type Finding struct {
	ID       string           `json:"id"`
	Severity finding.Severity `json:"severity"`
	// Path is the field's, such as metadata.annotations[example.com/key].
	Path    string `json:"path"`
	Value   string `json:"value"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	Catalog string `json:"catalog"`
	// Line and Column are those of the key in the file.
	Line    int     `json:"line,omitempty"`
	Column  int     `json:"column,omitempty"`
	Excerpt Excerpt `json:"-"`
}

// Excerpt is the line of the source with a mark below what is wrong.
type Excerpt struct {
	Text string
	// Mark is the column of the mark and Width its length, both in characters.
	Mark, Width int
}

// Default is an annotation that admission would add.
type Default struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Policy is the one whose default it is, such as ClusterLoadBalancerPolicy/shared; empty for a built-in one.
	Policy string `json:"policy,omitempty"`
}

// Findings are those of a judgement that are shown to anybody, without places.
func Findings(found []finding.Finding) []Finding {
	shown := []Finding{}
	for _, f := range found {
		if f.Severity == finding.Audit {
			continue
		}
		message := f.Message
		if len(f.Listeners) > 0 {
			message += " (" + strings.Join(f.Listeners, ", ") + ")"
		}
		shown = append(shown, Finding{
			ID: f.ID, Severity: f.Severity, Path: f.Field, Value: f.Value, Message: message, Remedy: f.Remedy, Catalog: f.Catalog,
		})
	}
	return shown
}

// Sort puts findings into the order of the source.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// text is the problem in one line.
func (f Finding) text() string {
	text := f.Path + ": " + f.Message
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	// Nothing that somebody wrote into a manifest may talk to the terminal.
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}
