// Package manual has the command by which programs write their man pages. Servers leave it out, and the library with it.
package manual

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/version"
)

// manDate is the time of the commit, so that the pages are reproducible: that of SOURCE_DATE_EPOCH or else the one that Go
// has recorded, if any.
func manDate() *time.Time {
	date := time.Unix(0, 0).UTC()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(seconds, 0).UTC()
	} else if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				date = at.UTC()
			}
		}
	}
	return &date
}

// NewCommand returns the command by which a program writes its man pages.
func NewCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write man pages for every command",
		Example: "  " + program + " man ~/.local/share/man/man1\n  man " + program,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("requires one directory to write the pages to")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are world-readable
				return fmt.Errorf("create directory: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{
				Section: "1", Source: "Quaymaster " + version.Version(), Manual: "Quaymaster", Date: manDate(),
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			return nil
		},
	}
}
