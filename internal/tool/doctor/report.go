package doctor

import (
	"fmt"
	"io"
	"strings"

	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/wrap"
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
// the names of the checks that do not apply. Lines are broken between words if limit is not 0.
func (r Report) Text(out io.Writer, limit int) error {
	width := 0
	for _, result := range r {
		width = max(width, len(result.Check))
	}
	var text strings.Builder
	line := func(level Level, check, content string) {
		start := fmt.Sprintf("%-4s  %-*s  ", level, width, check)
		if limit > 0 {
			content = wrap.Text(content, len(start), len("      "), limit)
		}
		fmt.Fprintln(&text, start+content)
	}
	for _, level := range []Level{Fail, Warn, OK} {
		for _, result := range r {
			if result.Level != level {
				continue
			}
			line(result.Level, result.Check, result.Found)
			for _, detail := range result.Details {
				line("", "", "- "+detail)
			}
			if result.Remedy != "" {
				line("", "", "fix: "+result.Remedy)
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
		content := strings.Join(skipped[reason], ", ") + ": " + reason
		if limit > 0 {
			content = wrap.Text(content, len("      "), len("      "), limit)
		}
		fmt.Fprintf(&text, "%-4s  %s\n", Skip, content)
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
