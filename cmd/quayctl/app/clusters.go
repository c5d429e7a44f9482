//go:build !manifestsonly

package app

import (
	"slices"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/cmd/quayctl/app/inspect"
	"quaymaster.dev/cmd/quayctl/app/operate"
)

// clusterCommands returns the commands that need a cluster or a cloud. Their errors state what may help. With the tag
// manifestsonly, they are left out, and with them the clients of Kubernetes, which are two thirds of the build.
func clusterCommands() []*cobra.Command {
	commands := slices.Concat(inspect.Commands(), operate.Commands())
	for _, cmd := range commands {
		if run := cmd.RunE; run != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return access.WithRemedy(run(cmd, args)) }
		}
	}
	return commands
}
