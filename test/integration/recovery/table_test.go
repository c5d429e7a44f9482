package recovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/parallel"
)

// TestMain runs all tests at a time, whatever the number of processors: most of the time, they wait for leases to expire and
// for the cloud to be asked again.
func TestMain(m *testing.M) { os.Exit(parallel.Main(m, 8)) }

// The rows of the table, by what happened.
const (
	rowEtcd     = "etcd is restored from a backup"
	rowCloud    = "The cloud is restored from a backup"
	rowBoth     = "Both are restored"
	rowLease    = "The lease is deleted"
	rowClone    = "The cluster is cloned"
	rowEndpoint = "The endpoint is wrong"
	rowToken    = "The token is revoked"
)

// TestTable makes sure that no row of the page is without a test.
func TestTable(t *testing.T) {
	root, err := env.Root()
	must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "disaster-recovery.md"))
	must(t, err)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if name, row := strings.CutPrefix(line, "| **"); row {
			name, _, _ = strings.Cut(name, "**")
			rows = append(rows, name)
		}
	}
	tested := []string{rowEtcd, rowCloud, rowBoth, rowLease, rowClone, rowEndpoint, rowToken}
	if diff := cmp.Diff(tested, rows); diff != "" {
		t.Errorf("rows of the table (-tested +documented):\n%s", diff)
	}
}
