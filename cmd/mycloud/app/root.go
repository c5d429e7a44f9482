// Package app composes the mycloud command.
package app

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/manual"
	"quaymaster.dev/internal/mycloud/server/api"
)

// The environment variables that the commands read. Flags take precedence.
const (
	endpointVariable = "MYCLOUD_ENDPOINT"
	tokenVariable    = "MYCLOUD_TOKEN"
	cloudIDVariable  = "MYCLOUD_CLOUD_ID"
	// edgeTokenVariable has the token of edges.
	edgeTokenVariable = "MYCLOUD_EDGE_TOKEN" //nolint:gosec // G101: the name of a variable, not a token
)

// Run runs the command and returns the exit code. It prints an error as one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(), args, stdout, stderr) //nolint:contextcheck // cobra passes the context on
}

// NewCommand returns the mycloud command with its subcommands.
func NewCommand() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   "mycloud",
		Short: "Reference implementation of the mycloud API, and a client for it",
		Long: "\"mycloud serve\" runs a cloud's control plane on this machine, \"mycloud edge\" carries the traffic of its load\n" +
			"balancers.\n" +
			"The other commands are clients of a control plane. They take its endpoint from " + endpointVariable + "\n" +
			"(those of several servers are separated by commas) and the token from " + tokenVariable + ".",
	}, append(append(newChangeCommands(), newEdgeCommands()...), newServeCommand(), newBackupCommand(), newRestoreCommand(), newMigrateCommand(), newGetCommand(), newOpenAPICommand(), manual.NewCommand("mycloud"))...)
	root.CompletionOptions.DisableDefaultCmd = false
	return root
}

func newOpenAPICommand() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the API's OpenAPI document",
		Args:  command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := api.Document()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(doc)
			return err
		},
	}
}
