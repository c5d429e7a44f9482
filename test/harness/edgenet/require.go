//go:build linux

package edgenet

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Require skips the test unless it runs as root and the programs are installed.
func Require(tb testing.TB, programs ...string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("network namespaces require root")
	}
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		tb.Skipf("%s missing: run tools/edge-packages.sh", strings.Join(missing, ", "))
	}
}
