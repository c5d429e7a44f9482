//go:build manifestsonly

package app

import "github.com/spf13/cobra"

func clusterCommands() []*cobra.Command { return nil }
