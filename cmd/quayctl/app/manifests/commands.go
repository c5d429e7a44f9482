// Package manifests has the commands of quayctl that need neither a cluster nor a cloud: they read manifests and catalogs.
package manifests

import "github.com/spf13/cobra"

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{newLintCommand(), newExplainCommand(), newExportCommand()}
}
