package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// GitHub writes the commands by which a job of GitHub Actions annotates the lines of a pull request.
func GitHub(w io.Writer, results []Result) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	out := bufio.NewWriter(w)
	for _, r := range results {
		for _, f := range r.Findings {
			fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n",
				f.Severity, property.Replace(r.File), f.Line, f.Column, property.Replace(f.ID), data.Replace(f.text()))
		}
	}
	return out.Flush()
}
