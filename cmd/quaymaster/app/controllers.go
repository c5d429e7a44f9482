package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// controllersProgram runs the controllers role. It is separate because the code of a cloud-controller-manager would
// otherwise double the memory and the start time of the webhooks.
const controllersProgram = "quaymaster-controllers"

func newControllersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "controllers",
		Short: "Run the cloud controllers",
		Long: "Run the cloud controllers. This replaces the process by the program " + controllersProgram + ", which must\n" +
			"be in the same folder as quaymaster. --help prints its flags.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runControllers(args) },
	}
}

// runControllers replaces the process, so that signals, exit code and resource limits are those of the controllers.
func runControllers(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find %s: %w", controllersProgram, err)
	}
	program := filepath.Join(filepath.Dir(self), controllersProgram)
	err = syscall.Exec(program, append([]string{controllersProgram}, args...), os.Environ())
	return fmt.Errorf("run %s: %w; install it in the folder of quaymaster", program, err)
}
