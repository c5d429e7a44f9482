// Package app composes the quaymaster command from its roles.
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

// NewCommand is quaymaster with its roles as subcommands.
func NewCommand() *cobra.Command {
	return command.Root(&cobra.Command{
		Use:   "quaymaster",
		Short: "Admission webhooks and cloud controllers for load balancers of mycloud",
		Long: "Quaymaster refuses LoadBalancer Services that the cloud could not serve, writes missing defaults into them, and\n" +
			"keeps the cloud's load balancers, routes and the cluster's Nodes in step.",
	}, newWebhookCommand(), newControllersCommand(), newUninstallCommand(), newTeardownCommand())
}
