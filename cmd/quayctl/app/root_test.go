package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/quayctl/app"
	"quaymaster.dev/internal/rules/catalog/library"
)

// People see the name that they called.
func TestCalledAsPlugin(t *testing.T) {
	for _, args := range [][]string{{"lint", "--help"}, {"lint"}, {"--help"}, {"doctor", "now"}} {
		var out bytes.Buffer
		app.Run(t.Context(), append([]string{"/usr/bin/kubectl-quay"}, args...), &out, &out)
		shown := strings.ReplaceAll(out.String(), "quayctl validates", "")
		if !strings.Contains(shown, "kubectl quay ") || strings.Contains(shown, "quayctl ") {
			t.Errorf("%v:\n%s", args, out.String())
		}
	}
}

func TestEveryCommandShowsAnExample(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if !strings.Contains(cmd.Example, "quayctl") || cmd.Short == "" {
			t.Errorf("%s: example %q, short %q", cmd.CommandPath(), cmd.Example, cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(app.NewCommand("quayctl"))
}

func TestCompletion(t *testing.T) {
	for flag, want := range map[string]string{
		"--output": "text\njson\nsarif\ngithub\nhtml\n:4\n", "--catalog": strings.Join(library.BuiltIn().Names(), "\n") + "\n:4\n", "--color": "auto\nalways\nnever\n:4\n",
	} {
		if _, stdout, _ := run(t, "__complete", "lint", flag, ""); stdout != want {
			t.Errorf("%s: %q, want %q", flag, stdout, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, _ := run(t, "completion", shell); code != 0 || !strings.Contains(stdout, "quayctl") {
			t.Errorf("%s: exit code %d, %d bytes", shell, code, len(stdout))
		}
	}
}

func TestManPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	if code, _, stderr := run(t, "man", folder); code != 0 {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(filepath.Join(folder, "quayctl-lint.1"))
	if err != nil || !strings.Contains(string(page), "helm template") {
		t.Errorf("%v:\n%s", err, page)
	}
	if code, _, stderr := run(t, "man"); code != 2 || !strings.Contains(stderr, "one directory") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// Help fits a terminal of 80 columns, apart from examples, which are copied as a whole.
func TestHelpFitsTerminals(t *testing.T) {
	var check func(cmd *cobra.Command, args ...string)
	check = func(cmd *cobra.Command, args ...string) {
		_, help, _ := run(t, append(args, "--help")...)
		for line := range strings.Lines(help) {
			line = strings.TrimSuffix(line, "\n")
			if len(line) > 80 && !strings.Contains(line, "quayctl ") && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%v --help: %d columns: %s", args, len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub, append(slices.Clip(args), sub.Name())...)
		}
	}
	check(app.NewCommand("quayctl"))
}
