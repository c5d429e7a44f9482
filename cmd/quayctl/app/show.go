package app

import (
	"fmt"
	"io"

	"quaymaster.dev/internal/doctor"
	"quaymaster.dev/internal/report"
)

// showText writes one line a result, aligned, and what to do below it.
func showText(out io.Writer, results []doctor.Result) error {
	width := 0
	for _, r := range results {
		width = max(width, len(r.Check))
	}
	for _, r := range results {
		if _, err := fmt.Fprintf(out, "%-4s  %-*s  %s\n", r.Level, width, r.Check, r.Found); err != nil {
			return err
		}
		if r.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "%-4s  %-*s  to do: %s\n", "", width, "", r.Remedy); err != nil {
			return err
		}
	}
	return nil
}

// examination is the form for programs.
type examination struct {
	// OK tells whether no check failed.
	OK     bool            `json:"ok"`
	Checks []doctor.Result `json:"checks"`
}

func showJSON(out io.Writer, results []doctor.Result) error {
	return report.Encode(out, examination{OK: len(names(results, doctor.Fail)) == 0, Checks: results})
}
