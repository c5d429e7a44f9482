// Package report writes findings in the formats of people, programs and code hosts.
package report

import (
	"cmp"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/visible"
)

// Result holds the findings of one object.
type Result struct {
	// File contains the object, which starts at Line. Both are empty for an object of a cluster.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Object Object `json:"object"`
	// Findings are in the order of the source.
	Findings []Finding `json:"findings"`
	// Suppressed are those that users have accepted.
	Suppressed []Finding `json:"suppressed,omitempty"`
	// Defaults holds what admission would add, if requested.
	Defaults []Default `json:"defaults,omitempty"`
	// Ignores are what annotations of the object say about findings.
	Ignores []Ignore `json:"-"`
}

// Object identifies an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Finding is one problem.
type Finding struct {
	ID       string           `json:"id"`
	Severity finding.Severity `json:"severity"`
	// Path is the path of the field, such as metadata.annotations[example.com/key].
	Path    string `json:"path"`
	Value   string `json:"value"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	Catalog string `json:"catalog"`
	// AlsoCatalogs are other catalogs that have the same finding, under ids of theirs.
	AlsoCatalogs []string `json:"alsoCatalogs,omitempty"`
	// Line and Column are the position of the key in the file.
	Line    int     `json:"line,omitempty"`
	Column  int     `json:"column,omitempty"`
	Excerpt Excerpt `json:"-"`
	// Check names the check that failed, where many share an ID.
	Check string `json:"-"`
	// Suppression is why the finding does not count; nil if it does.
	Suppression *Suppression `json:"suppression,omitempty"`
}

// Suppression is why a finding does not count.
type Suppression struct {
	// Kind is inSource for a comment or an annotation, and external for anything else, as in SARIF.
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

// The kinds of suppressions.
const (
	InSource = "inSource"
	External = "external"
)

// Ignore is a comment or an annotation that says which findings are to be ignored, and why.
type Ignore struct {
	// Path is that of the annotation; comments have none.
	Path string
	// Text is the comment, or the value of the annotation.
	Text   string
	IDs    []string
	Reason string
	// At is the position. Findings in the line Of are ignored; 0 for those of the whole object.
	Line, Column, Of int
	Excerpt          Excerpt
}

// Excerpt is the line of the source with a mark below the problem.
type Excerpt struct {
	Text string
	// Mark is the column of the mark and Width its length, both in characters.
	Mark, Width int
}

// Default is an annotation that admission would add.
type Default struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Policy sets the default, such as ClusterLoadBalancerPolicy/shared; empty for a built-in default.
	Policy string `json:"policy,omitempty"`
}

// Findings returns the findings to show, without positions: findings of severity Audit are only counted.
func Findings(found []finding.Finding) []Finding {
	shown := []Finding{}
	for _, f := range found {
		if f.Severity == finding.Audit {
			continue
		}
		shown = append(shown, Finding{
			ID: f.ID, Severity: f.Severity, Path: f.Field, Value: f.Value, Message: f.Problem(), Remedy: f.Remedy,
			Catalog: f.Catalog, AlsoCatalogs: f.AlsoCatalogs, Check: f.Check,
		})
	}
	return shown
}

// Sort sorts findings by their position in the source.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// text returns the problem as one line, with what a terminal would obey or hide made visible.
func (f Finding) text() string {
	text := f.Path + ": " + f.Message
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return visible.Text(strings.Join(strings.Fields(text), " "))
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}
