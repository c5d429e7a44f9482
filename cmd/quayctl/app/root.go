// Package app composes the quayctl command.
package app

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/manual"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/cmd/quayctl/app/manifests"
)

// plugin is the command line that runs quayctl as a kubectl plugin, through a link by which kubectl finds it.
const plugin, link = "kubectl quay", "kubectl-quay"

// Run runs the command and returns its exit code. args[0] is the name by which it was called. An error is printed to
// stderr as one line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(args[0]), args[1:], stdout, stderr) //nolint:contextcheck // cobra passes the context to the commands
}

// NewCommand returns the quayctl command with its subcommands. Help shows the name by which it was called.
func NewCommand(calledBy string) *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   flags.Program,
		Short: "Validate load balancer manifests and clusters, and diagnose Quaymaster",
		Long: "quayctl validates manifests and clusters, and diagnoses installations of Quaymaster. It is also\n" +
			"available as kubectl quay if a link named " + link + " to it is in PATH.",
	}, slices.Concat(manifests.Commands(), clusterCommands(), []*cobra.Command{manual.NewCommand(flags.Program)})...)
	root.Example = "  quayctl lint service.yaml\n  quayctl doctor\n  quayctl lint --help"
	root.CompletionOptions.DisableDefaultCmd = false
	if program := strings.TrimSuffix(filepath.Base(calledBy), ".exe"); program == link {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: plugin}
	}
	showExamples(root)
	return root
}

// showExamples gives every command an example that uses the name by which the program was called.
func showExamples(cmd *cobra.Command) {
	called := cmd.Root().DisplayName()
	if cmd.Example == "" {
		cmd.Example = "  " + cmd.CommandPath()
	}
	if called != flags.Program {
		cmd.Example = strings.ReplaceAll(cmd.Example, flags.Program+" ", called+" ")
	}
	for _, sub := range cmd.Commands() {
		showExamples(sub)
	}
}
