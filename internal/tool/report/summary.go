package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/visible"
)

// Counts are the numbers of the objects that were read.
type Counts struct {
	// Checked and Skipped are those that were validated, and those that were not, by kind.
	Checked, Skipped map[string]int
	// Unknown are those without a kind, or with one that does not exist.
	Unknown int
	// Unreadable are the files and documents that could not be read.
	Unreadable int
}

// Check adds objects that were validated.
func (c *Counts) Check(kind string, n int) { c.Checked = add(c.Checked, map[string]int{kind: n}) }

// Skip adds objects that were not validated, by kind.
func (c *Counts) Skip(kinds map[string]int) { c.Skipped = add(c.Skipped, kinds) }

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	c.Checked, c.Skipped = add(c.Checked, other.Checked), add(c.Skipped, other.Skipped)
	c.Unknown += other.Unknown
	c.Unreadable += other.Unreadable
}

func add(to, more map[string]int) map[string]int {
	if to == nil {
		to = map[string]int{}
	}
	for kind, n := range more {
		to[kind] += n
	}
	return to
}

// Empty reports whether nothing was read that is an object.
func (c *Counts) Empty() bool { return len(c.Checked) == 0 && len(c.Skipped) == 0 }

// Count returns the number of findings of a severity.
func Count(results []Result, severity finding.Severity) int {
	n := 0
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Severity == severity {
				n++
			}
		}
	}
	return n
}

// Summary returns one line about all objects, such as "3 errors and 1 warning in 2 of 14 Services; skipped 2 ConfigMaps".
// results need not contain the objects without findings.
func Summary(results []Result, counts Counts) string {
	affected := 0
	for _, r := range results {
		if len(r.Findings) > 0 {
			affected++
		}
	}
	checked := checkedObjects(results, counts)
	parts := []string{}
	switch errs, warnings := Count(results, finding.Error), Count(results, finding.Warning); {
	case len(counts.Checked) == 0 && affected == 0:
		parts = append(parts, "nothing to check")
	case affected == 0:
		parts = append(parts, "no problems in "+checked)
	case errs+warnings == 0:
		parts = append(parts, fmt.Sprintf("%s in %d of %s", number(Count(results, finding.Note), "note"), affected, checked))
	case warnings == 0:
		parts = append(parts, fmt.Sprintf("%s in %d of %s", number(errs, "error"), affected, checked))
	case errs == 0:
		parts = append(parts, fmt.Sprintf("%s in %d of %s", number(warnings, "warning"), affected, checked))
	default:
		parts = append(parts, fmt.Sprintf("%s and %s in %d of %s", number(errs, "error"), number(warnings, "warning"), affected, checked))
	}
	ignored := 0
	for _, r := range results {
		ignored += len(r.Suppressed)
	}
	if ignored > 0 {
		parts = append(parts, "ignored "+number(ignored, "finding"))
	}
	if len(counts.Skipped) > 0 {
		parts = append(parts, "skipped "+byKind(counts.Skipped))
	}
	if counts.Unknown > 0 {
		parts = append(parts, number(counts.Unknown, "document")+" of unknown kind")
	}
	if counts.Unreadable > 0 {
		parts = append(parts, number(counts.Unreadable, "part")+" of the input could not be read")
	}
	return strings.Join(parts, "; ")
}

// checkedObjects describes the objects that were validated, and those whose kind is wrong.
func checkedObjects(results []Result, counts Counts) string {
	total := 0
	for _, n := range counts.Checked {
		total += n
	}
	wrong := 0
	for _, r := range results {
		if counts.Checked[r.Object.Kind] == 0 {
			wrong++
		}
	}
	switch {
	case len(counts.Checked) == 1 && wrong == 0:
		return byKind(counts.Checked)
	case len(counts.Checked) <= 1:
		return number(total+wrong, "object")
	}
	return number(total+wrong, "object") + " (" + byKind(counts.Checked) + ")"
}

// byKind lists the kinds with their numbers, the most frequent ones first.
func byKind(counts map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = number(counts[kind], visible.Text(kind))
	}
	return strings.Join(kinds, ", ")
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case y && !strings.HasSuffix(stem, "a"): // Gateway
		return fmt.Sprintf("%d %sies", n, stem)
	case strings.HasSuffix(noun, "ss"), strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	case strings.HasSuffix(noun, "s"): // Endpoints
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
