// Package app composes the quaymaster command from its roles.
package app

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
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake on the command line itself.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run runs the command and returns the exit code. An error is one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := NewCommand() //nolint:contextcheck // cobra hands the context to the commands
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	line := ran.CommandPath() + ": " + strings.Join(strings.Fields(err.Error()), " ")
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "%s; see %q\n", line, ran.CommandPath()+" --help")
		return exitUsage
	}
	fmt.Fprintln(stderr, line)
	return exitFailure
}

// NewCommand is quaymaster with its roles as subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quaymaster",
		Short: "Admission webhooks and cloud controllers for load balancers of mycloud",
		Long: "Quaymaster refuses LoadBalancer Services that the cloud could not serve, writes missing defaults into them, and\n" +
			"keeps the cloud's load balancers, routes and the cluster's Nodes in step.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// How many letters a mistyped command may differ by.
		SuggestionsMinimumDistance: 2,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(newWebhookCommand(), newControllersCommand(), newVersionCommand())
	return cmd
}

// knownCommand refuses words that are no command, with the nearest one that is.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q: did you mean %q?", args[0], near[0])
	}
	return usagef("unknown command %q", args[0])
}

// noArguments refuses whatever is no flag.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown argument %q", args[0])
	}
	return nil
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}
