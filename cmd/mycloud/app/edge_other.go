//go:build !linux

package app

import "github.com/spf13/cobra"

// newEdgeCommands returns nothing: edges need the Linux kernel.
func newEdgeCommands() []*cobra.Command { return nil }
