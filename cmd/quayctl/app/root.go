// Package app composes the quayctl command.
package app

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
)

const (
	name = "quayctl"
	// plugin is how people call the command through a link by which kubectl finds it.
	plugin, link = "kubectl quay", "kubectl-quay"
)

// Run runs the command as it was called, by the first of the arguments, and returns the exit code. An error is one line on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(args[0]), args[1:], stdout, stderr) //nolint:contextcheck // cobra hands the context to the commands
}

// NewCommand is quayctl with its subcommands, called by a name.
func NewCommand(calledBy string) *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   name,
		Short: "Tools for people who install, run and use Quaymaster",
		Long:  "quayctl judges manifests and clusters, and looks after installations of Quaymaster. kubectl finds it as kubectl quay through a\nlink named " + link + ".",
	}, newLintCommand(), newAuditCommand(), newExplainCommand(), newExportCommand(), newDoctorCommand(), newManCommand())
	root.Example = "  quayctl lint service.yaml\n  quayctl doctor\n  quayctl lint --help"
	root.CompletionOptions.DisableDefaultCmd = false
	if program := strings.TrimSuffix(filepath.Base(calledBy), ".exe"); program == link {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: plugin}
	}
	showExamples(root)
	return root
}

// showExamples gives every command an example, by the name that the program was called by.
func showExamples(cmd *cobra.Command) {
	called := cmd.Root().DisplayName()
	if cmd.Example == "" {
		cmd.Example = "  " + cmd.CommandPath()
	}
	if called != name {
		cmd.Example = strings.ReplaceAll(cmd.Example, name+" ", called+" ")
	}
	for _, sub := range cmd.Commands() {
		showExamples(sub)
	}
}
