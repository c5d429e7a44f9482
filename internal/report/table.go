package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes a line for each finding, for people.
func Table(w io.Writer, results []Result) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, r := range results {
		if i == 0 {
			fmt.Fprintln(out, "OBJECT\tSEVERITY\tFINDING\tPROBLEM")
		}
		for _, f := range r.Findings {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", r.Object, f.Severity, f.ID, f.text())
		}
	}
	return out.Flush()
}
