// Package app composes the quaymaster command from its roles.
package app

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
)

// Run runs the command and returns its exit code. An error is printed to stderr as one line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(), args, stdout, stderr) //nolint:contextcheck // cobra passes the context to the commands
}

// NewCommand returns the quaymaster command with its subcommands.
func NewCommand() *cobra.Command {
	return command.Root(&cobra.Command{
		Use:   "quaymaster",
		Short: "Admission webhooks and cloud controllers for load balancers of mycloud",
		Long: "Quaymaster validates Services of type LoadBalancer at admission and sets their defaults, and keeps\n" +
			"the cloud's load balancers and routes in sync with the Services and Nodes of the cluster.",
	}, newWebhookCommand(), newControllersCommand())
}
