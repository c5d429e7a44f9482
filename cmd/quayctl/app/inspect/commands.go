// Package inspect has the commands of quayctl that find out what is wrong with a cluster, and change nothing.
package inspect

import "github.com/spf13/cobra"

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{newAuditCommand(), newDoctorCommand(), newProbeCommand()}
}
