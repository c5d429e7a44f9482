package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	mycloud "quaymaster.dev/cmd/mycloud/app"
	quayctl "quaymaster.dev/cmd/quayctl/app"
	quaymaster "quaymaster.dev/cmd/quaymaster/app"
)

const root = "../.."

// command matches a call of one of the programs in a code block or in code in the text, after continued lines are
// joined: the program and its arguments.
var command = regexp.MustCompile("(?m)(?:^(?: {4,}|\\$ )(?:\\$ )?|`)(?:bin/)?(quayctl|quaymaster|mycloud|kubectl quay) ([a-z][^`\n]*)")

// TestCommands: the commands and flags that pages show exist.
func TestCommands(t *testing.T) {
	programs := map[string]func() *cobra.Command{
		"quayctl":      func() *cobra.Command { return quayctl.NewCommand("quayctl") },
		"kubectl quay": func() *cobra.Command { return quayctl.NewCommand("kubectl-quay") },
		"quaymaster":   quaymaster.NewCommand,
		"mycloud":      mycloud.NewCommand,
	}
	found := 0
	for _, file := range markdown(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(text), "")
		for _, match := range command.FindAllStringSubmatch(joined, -1) {
			found++
			if runtime.GOOS != "linux" && match[1] == "mycloud" && strings.HasPrefix(match[2], "edge ") {
				continue // has no flags there
			}
			check(t, file, programs[match[1]](), match[1], arguments(match[2]))
		}
	}
	if found < 50 {
		t.Errorf("found only %d commands", found)
	}
}

// arguments returns the words of a command up to a comment, a pipe or another command.
func arguments(line string) []string {
	var words []string
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "#") || strings.ContainsAny(word[:1], "|>&;") {
			break
		}
		words = append(words, word)
	}
	return words
}

func check(t *testing.T, file string, program *cobra.Command, name string, words []string) {
	t.Helper()
	line := name + " " + strings.Join(words, " ")
	cmd, rest, err := program.Find(words)
	if err != nil {
		t.Errorf("%s: %s: %v", file, line, err)
		return
	}
	if cmd == program {
		t.Errorf("%s: %s: no such command", file, line)
		return
	}
	if cmd.DisableFlagParsing {
		return
	}
	for _, word := range rest {
		flag, _, _ := strings.Cut(word, "=")
		switch {
		case flag == "--help", flag == "-h":
		case strings.HasPrefix(flag, "--"):
			if cmd.Flag(flag[2:]) == nil {
				t.Errorf("%s: %s: flag %s does not exist", file, line, flag)
			}
		case len(flag) > 1 && flag[0] == '-':
			if cmd.Flags().ShorthandLookup(flag[1:2]) == nil {
				t.Errorf("%s: %s: flag %s does not exist", file, line, flag)
			}
		}
	}
}

// markdown returns the pages of the documentation, except for the changelog, which also describes what no longer exists.
func markdown(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "charts/quaymaster/README.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) == ".md" {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
