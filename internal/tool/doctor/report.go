package doctor

import (
	"fmt"
	"io"
	"strings"

	"quaymaster.dev/internal/tool/report"
)

// Report holds the results of all checks, in their order.
type Report []Result

// Failed returns the names of the checks that failed.
func (r Report) Failed() []string {
	var names []string
	for _, result := range r {
		if result.Level == Fail {
			names = append(names, result.Check)
		}
	}
	return names
}

// Text writes the failures first, then warnings and what is right, each with its details and its remedy, and at the end
// the names of the checks that do not apply.
func (r Report) Text(out io.Writer) error {
	width := 0
	for _, result := range r {
		width = max(width, len(result.Check))
	}
	var text strings.Builder
	for _, level := range []Level{Fail, Warn, OK} {
		for _, result := range r {
			if result.Level != level {
				continue
			}
			fmt.Fprintf(&text, "%-4s  %-*s  %s\n", result.Level, width, result.Check, result.Found)
			for _, detail := range result.Details {
				fmt.Fprintf(&text, "%-4s  %-*s  - %s\n", "", width, "", detail)
			}
			if result.Remedy != "" {
				fmt.Fprintf(&text, "%-4s  %-*s  fix: %s\n", "", width, "", result.Remedy)
			}
		}
	}
	skipped := map[string][]string{}
	var reasons []string
	for _, result := range r {
		if result.Level != Skip {
			continue
		}
		if skipped[result.Found] == nil {
			reasons = append(reasons, result.Found)
		}
		skipped[result.Found] = append(skipped[result.Found], result.Check)
	}
	for _, reason := range reasons {
		fmt.Fprintf(&text, "%-4s  %s: %s\n", Skip, strings.Join(skipped[reason], ", "), reason)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// JSON writes the results, and whether no check failed.
func (r Report) JSON(out io.Writer) error {
	return report.Encode(out, struct {
		OK     bool   `json:"ok"`
		Checks Report `json:"checks"`
	}{len(r.Failed()) == 0, r})
}
