// Package operate has the commands of quayctl for those who operate a cluster: they show and change what the cluster has in
// the cloud.
package operate

import "github.com/spf13/cobra"

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newPlanCommand(), newResumeCommand(), newTakeoverCommand(), newMigrateCommand(), newOrphansCommand(), newTeardownCommand(),
	}
}
