// Package browser looks at pages in Chromium: as they are shown in two widths and both themes, for violations of accessibility,
// and with a keyboard. Its scripts run in Node.js.
package browser

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"quaymaster.dev/test/harness/env"
)

// The scripts.
const (
	// Cloud looks at the page of a cloud, in which a load balancer has traffic.
	Cloud = "cloud.mjs"
	// Findings looks at pages of findings.
	Findings = "findings.mjs"
)

// Look runs a script with its arguments, which its first line describes, and returns what it has read from pages. What is
// wrong with them are errors of the test. Screenshots are kept in a folder, unless its name is empty. On a machine without
// a browser, it skips the test.
func Look(t *testing.T, script, screenshots string, arguments map[string]any) (figures map[string]string) {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(root, "bin", "tools", "page")
	chromium, err := exec.LookPath("chromium")
	if _, missing := os.Stat(filepath.Join(packages, "complete")); err != nil || missing != nil {
		t.Skip("Chromium or the packages of tools/page are missing; install them with tools/page.sh browser")
	}
	if screenshots == "" {
		screenshots = t.TempDir()
	}
	if err := os.MkdirAll(screenshots, 0o750); err != nil {
		t.Fatal(err)
	}
	arguments["packages"], arguments["chromium"], arguments["out"] = packages, chromium, screenshots
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(root, "test", "harness", "browser", script), string(raw))
	cmd.Stderr = t.Output()
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Problems []string
		Figures  map[string]string
	}
	if err := json.Unmarshal(stdout, &found); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	for _, p := range found.Problems {
		t.Error(p)
	}
	return found.Figures
}
