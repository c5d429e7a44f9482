package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/reference"
	"quaymaster.dev/internal/report"
	"quaymaster.dev/internal/version"
)

// The forms of output.
const (
	outputText   = "text"
	outputTable  = "table"
	outputJSON   = "json"
	outputSARIF  = "sarif"
	outputGitHub = "github"
)

// orList is a list as it is read out: a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// oneOf checks the value of a flag.
func oneOf(flag, value string, allowed []string) []string {
	if slices.Contains(allowed, value) {
		return nil
	}
	return []string{fmt.Sprintf("--%s must be %s; got %q", flag, orList(allowed), value)}
}

// completeWith makes the shell propose the values of a flag.
func completeWith(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

// unknownCatalogs checks the names of catalogs.
func unknownCatalogs(names []string) []string {
	var problems []string
	for _, name := range names {
		if !slices.Contains(catalog.Names(), name) {
			problems = append(problems, fmt.Sprintf("--catalog must name some of %s; got %q", strings.Join(catalog.Names(), ", "), name))
		}
	}
	return problems
}

// tool is what SARIF says of this program.
func tool() report.Tool {
	root, err := os.Getwd()
	if err != nil {
		root = "" // then only files named by relative paths can be told apart from others
	}
	return report.Tool{Version: version.Version(), Root: root, Rule: rule}
}

// rule documents the id of a finding.
func rule(id string) (report.Rule, bool) {
	f, found := reference.FindFinding(id)
	return report.Rule{Doc: finding.Doc{ID: f.ID, Severity: f.Severity, Help: f.Help}, Page: f.Page}, found
}

// verdict ends a command that judges objects: exit code 1 for findings of severity error, 2 where something could not be read.
func verdict(results []report.Result, unreadable bool) error {
	switch {
	case unreadable:
		return command.Exit(command.ExitUsage, nil)
	case report.Count(results, finding.Error) > 0:
		return command.Exit(command.ExitFailure, nil)
	}
	return nil
}

// show writes results in a form that does not depend on where they come from.
func show(w io.Writer, form string, results []report.Result) error {
	switch form {
	case outputJSON:
		return report.JSON(w, results)
	case outputSARIF:
		return report.SARIF(w, results, tool())
	case outputTable:
		return report.Table(w, results)
	}
	return report.GitHub(w, results)
}

// isTerminal tells whether people read what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
