// Package command contains what the project's commands share: one-line errors, exit codes and the version command.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/internal/version"
	"quaymaster.dev/internal/wrap"
)

// Exit codes.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// usageError is an error in the command line itself.
type usageError struct{ error }

// Unwrap returns the mistake.
func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a command-line error, for which Run returns ExitUsage.
func Usage(err error) error { return usageError{err} }

// Usagef formats a command-line error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// exitError ends a command with a specific exit code.
type exitError struct {
	error
	code int
}

// Unwrap returns the reason, which may be nil.
func (e exitError) Unwrap() error { return e.error }

// Exit makes Run return code. err is nil if the command has already reported the reason.
func Exit(code int, err error) error { return exitError{err, code} }

// Logged reports the failure of a process whose log has been started in the log, so that all its output has one format.
// Errors in the command line remain for Run.
func Logged(logger logr.Logger, err error) error {
	if _, usage := errors.AsType[usageError](err); err == nil || usage {
		return err
	}
	logger.Error(err, "The process ends because of a failure")
	return Exit(ExitFailure, nil)
}

// Root completes the root command of a program. The root command only has subcommands.
func Root(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	return Group(Program(cmd), append(subcommands, newVersion())...)
}

// Program completes the only command of a program.
func Program(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	return cmd
}

// Group completes a command that only groups subcommands.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = knownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	// The maximum edit distance between a mistyped command and a suggestion.
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(subcommands...)
	return cmd
}

// Run runs the command and returns its exit code. An error is printed to stderr as one line.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	fit(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	exit, decided := errors.AsType[exitError](err)
	if decided && exit.error == nil {
		return exit.code
	}
	line := ran.CommandPath() + ": " + strings.Join(strings.Fields(err.Error()), " ")
	if decided {
		fmt.Fprintln(stderr, line)
		return exit.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "%s; see %q\n", line, ran.CommandPath()+" --help")
		return ExitUsage
	}
	fmt.Fprintln(stderr, line)
	return ExitFailure
}

// fit makes the help of a command and its subcommands fit terminals. It does not set a template of usage: templates call
// methods by name, for which the linker would keep all methods of all types.
func fit(root *cobra.Command) {
	wrapLong(root)
	printUsage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out, text := cmd.OutOrStderr(), &strings.Builder{}
		cmd.SetOut(text)
		defer cmd.SetOut(out)
		if err := printUsage(cmd); err != nil {
			return err
		}
		usage := text.String()
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			wide, fitting := strings.TrimSpace(flags.FlagUsages()), strings.TrimSpace(flags.FlagUsagesWrapped(wrap.Width))
			usage = strings.Replace(usage, wide, fitting, 1)
		}
		_, err := io.WriteString(out, usage)
		return err
	})
}

func wrapLong(cmd *cobra.Command) {
	cmd.Long = wrap.Paragraphs(cmd.Long, wrap.Width)
	for _, sub := range cmd.Commands() {
		wrapLong(sub)
	}
}

// JoinLine joins errors into one line.
func JoinLine(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// knownCommand rejects arguments that are not a command and suggests the closest command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return Usagef("unknown command %q", args[0])
}

// NoArguments rejects positional arguments.
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
