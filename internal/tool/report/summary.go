package report

import (
	"fmt"
	"slices"

	"quaymaster.dev/internal/rules/finding"
)

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

// Summary returns one line about all validated objects, such as "3 errors and 1 warning in 2 of 14 Services". results
// need not contain the objects without findings.
func Summary(results []Result, checked int) string {
	kind := "object"
	if len(results) == checked &&
		!slices.ContainsFunc(results, func(r Result) bool { return r.Object.Kind != "Service" }) {
		kind = "Service"
	}
	affected := 0
	for _, r := range results {
		if len(r.Findings) > 0 {
			affected++
		}
	}
	found := ""
	errs, warnings := Count(results, finding.Error), Count(results, finding.Warning)
	switch {
	case affected == 0:
		return "no problems in " + number(checked, kind)
	case warnings == 0:
		found = number(errs, "error")
	case errs == 0:
		found = number(warnings, "warning")
	default:
		found = number(errs, "error") + " and " + number(warnings, "warning")
	}
	return fmt.Sprintf("%s in %d of %s", found, affected, number(checked, kind))
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
