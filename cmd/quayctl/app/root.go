// Package app composes the quayctl command.
package app

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
)

// Run runs the command and returns the exit code. An error is one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(), args, stdout, stderr) //nolint:contextcheck // cobra hands the context to the commands
}

// NewCommand is quayctl with its subcommands.
func NewCommand() *cobra.Command {
	return command.Root(&cobra.Command{
		Use:   "quayctl",
		Short: "Tools for people who install, run and use Quaymaster",
		Long:  "quayctl looks after installations of Quaymaster. kubectl finds it as kubectl quay through a link named kubectl-quay.",
	}, newDoctorCommand())
}
