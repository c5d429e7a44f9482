package report

import (
	"fmt"
	"slices"

	"quaymaster.dev/internal/finding"
)

// Count is how many findings of a severity there are.
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

// Summary is one sentence about all objects that were judged, such as 3 errors and 1 warning in 2 of 14 Services. There may be
// results of those with findings alone.
func Summary(results []Result, judged int) string {
	kind := "object"
	if len(results) == judged && !slices.ContainsFunc(results, func(r Result) bool { return r.Object.Kind != "Service" }) {
		kind = "Service"
	}
	concerned := 0
	for _, r := range results {
		if len(r.Findings) > 0 {
			concerned++
		}
	}
	found := ""
	errs, warnings := Count(results, finding.Error), Count(results, finding.Warning)
	switch {
	case concerned == 0:
		return "no problems in " + number(judged, kind)
	case warnings == 0:
		found = number(errs, "error")
	case errs == 0:
		found = number(warnings, "warning")
	default:
		found = number(errs, "error") + " and " + number(warnings, "warning")
	}
	return fmt.Sprintf("%s in %d of %s", found, concerned, number(judged, kind))
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
