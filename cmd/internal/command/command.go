// Package command is what the project's commands have in common: one line for an error, exit codes, and the version.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"quaymaster.dev/internal/version"
)

// Exit codes.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// usageError is a mistake on the command line itself.
type usageError struct{ error }

// Usage marks an error as a mistake on the command line itself, for which Run exits with ExitUsage.
func Usage(err error) error { return usageError{err} }

// Usagef is Usage of a new error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// exitError is the end of a command with a code of its own.
type exitError struct {
	error
	code int
}

// Exit makes Run exit with a code. The error is nil if the command has told already why.
func Exit(code int, err error) error { return exitError{err, code} }

// Root completes a program's own command, which only has subcommands.
func Root(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	return Group(cmd, append(subcommands, newVersion())...)
}

// Group completes a command that only has subcommands, below another one.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = knownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	// How many letters a mistyped command may differ by.
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(subcommands...)
	return cmd
}

// Run runs the command and returns the exit code. An error is one line on stderr.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	code := ExitFailure
	if exit, ok := errors.AsType[exitError](err); ok {
		code = exit.code
		if exit.error == nil {
			return code
		}
	}
	line := ran.CommandPath() + ": " + strings.Join(strings.Fields(err.Error()), " ")
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "%s; see %q\n", line, ran.CommandPath()+" --help")
		return ExitUsage
	}
	fmt.Fprintln(stderr, line)
	return code
}

// knownCommand refuses words that are no command, with the nearest one that is.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("unknown command %q: did you mean %q?", args[0], near[0])
	}
	return Usagef("unknown command %q", args[0])
}

// NoArguments refuses whatever is no flag.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unknown argument %q", args[0])
	}
	return nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}
