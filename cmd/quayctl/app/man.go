package app

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/version"
)

// manDate is the same in all builds, so that the pages of equal programs are equal.
func manDate() *time.Time {
	date := time.Unix(0, 0).UTC()
	return &date
}

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the man pages of every command",
		Example: "  quayctl man ~/.local/share/man/man1\n  man quayctl-lint",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("must be told one folder for the pages")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // everybody may read man pages
				return fmt.Errorf("make the folder: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "Quaymaster " + version.Version(), Manual: "Quaymaster", Date: manDate()}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write pages: %w", err)
			}
			return nil
		},
	}
}
