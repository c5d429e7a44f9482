// Package output writes what the commands of quayctl that validate objects have found.
package output

import (
	"io"
	"os"

	"golang.org/x/term"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/reference"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/internal/wrap"
)

// Tool describes this program for SARIF.
func Tool() report.Tool {
	root, err := os.Getwd()
	if err != nil {
		root = "" // absolute paths are then reported as they are
	}
	return report.Tool{Version: version.Version(), Root: root, Rule: rule}
}

// rule returns the documentation of a finding's ID.
func rule(id string) (report.Rule, bool) {
	f, found := reference.FindFinding(id)
	return report.Rule{Doc: finding.Doc{ID: f.ID, Severity: f.Severity, Help: f.Help}, Page: f.Page}, found
}

// Verdict returns the exit code of a command that validates objects: 1 for findings of severity error, 2 if something
// could not be read.
func Verdict(results []report.Result, unreadable bool) error {
	switch {
	case unreadable:
		return command.Exit(command.ExitUsage, nil)
	case report.Count(results, finding.Error) > 0:
		return command.Exit(command.ExitFailure, nil)
	}
	return nil
}

// Show writes results in a format that lint and audit share. Pages have the title and the summary. With suppressed, SARIF
// has the findings that do not count.
func Show(w io.Writer, form string, results []report.Result, title, summary string, suppressed bool) error {
	switch form {
	case flags.JSON:
		return report.JSON(w, results)
	case flags.SARIF:
		of := Tool()
		of.Suppressed = suppressed
		return report.SARIF(w, results, of)
	case flags.HTML:
		return report.HTML(w, results, title, summary, Tool())
	case flags.Table:
		return report.Table(w, results)
	}
	return report.GitHub(w, results)
}

// WidthOf returns the width of a terminal, or 0 for anything else: what programs read has one line for each finding.
func WidthOf(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width < wrap.Width {
		return wrap.Width
	}
	return width
}

// Fitted breaks a line for a terminal.
func Fitted(w io.Writer, line string) string {
	if width := WidthOf(w); width > 0 {
		return wrap.Text(line, 0, 0, width)
	}
	return line
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
