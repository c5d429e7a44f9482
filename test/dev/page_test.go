package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// block is a code block of a page, or commands that only its source contains.
type block struct {
	line int
	// commands run one after the other; nil for text that is not run.
	commands []command
	// file is the name of the file with this text; empty for none.
	file, text string
	// reason says why the commands do not run; empty if they do.
	reason string
	// traffic: the commands need an edge and backends.
	traffic bool
	// eventually: the output comes after a while.
	eventually bool
	// varies matches what differs from run to run.
	varies []*regexp.Regexp
}

// command is what a user enters, with the output that the page shows. A command without one must succeed.
type command struct{ input, output string }

var comment = regexp.MustCompile(`(?s)^<!-- (not run|needs traffic|eventually|varies|file|before)(?:: (.*?))?\s*-->\s*$`)

// blocks returns what the code blocks of a page contain, as the marks before them say. A block of which a line begins
// with "$ " shows commands with their output; one that begins with the name of a program consists of commands.
func blocks(page []byte) ([]block, error) {
	var found []block
	var next block // what marks say about the next block
	marked := false
	document := goldmark.DefaultParser().Parse(text.NewReader(page))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || node.Type() != ast.TypeBlock || node.Lines().Len() == 0 {
			return ast.WalkContinue, nil
		}
		line := 1 + bytes.Count(page[:node.Lines().At(0).Start], []byte("\n"))
		content := string(node.Lines().Value(page))
		switch node := node.(type) {
		case *ast.HTMLBlock:
			if node.HasClosure() && !strings.Contains(content, "-->") {
				content += string(node.ClosureLine.Value(page))
			}
			match := comment.FindStringSubmatch(content)
			if match == nil {
				return 0, fmt.Errorf("line %d: unknown mark %q", line, content)
			}
			if match[1] == "before" {
				found = append(found, block{line: line, commands: []command{{input: match[2]}}})
				break
			}
			marked = true
			if err := next.mark(match[1], match[2]); err != nil {
				return 0, fmt.Errorf("line %d: %w", line, err)
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			next.line, next.text = line, content
			if next.file == "" {
				next.commands = commands(content)
			}
			if next.file == "" && next.commands == nil && marked {
				return 0, fmt.Errorf("line %d: the block has marks, but no commands", line)
			}
			if next.file == "" && next.commands == nil && hidden.MatchString(content) {
				return 0, fmt.Errorf("line %d: must begin with a command, because it contains one", line)
			}
			found = append(found, next)
			next, marked = block{}, false
		default:
			if marked {
				return 0, fmt.Errorf("line %d: must be a code block, because of the mark before it", line)
			}
		}
		return ast.WalkContinue, nil
	})
	return found, err
}

// mark adds what a mark says.
func (b *block) mark(name, value string) error {
	if (value == "") != (name == "eventually" || name == "needs traffic") {
		return fmt.Errorf("mark %q: must have a value, except for eventually and needs traffic", name)
	}
	switch name {
	case "not run":
		b.reason = value
	case "needs traffic":
		b.traffic = true
	case "eventually":
		b.eventually = true
	case "file":
		b.file = value
	case "varies":
		pattern, err := regexp.Compile(value)
		if err != nil {
			return err
		}
		b.varies = append(b.varies, pattern)
	}
	return nil
}

// commands returns the commands of a code block, or nil if it contains none.
func commands(content string) []command {
	lines := strings.SplitAfter(content, "\n")
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "$ ") }) {
		if !program(content) {
			return nil
		}
		return []command{{input: content}}
	}
	var found []command
	continued := false
	for _, line := range lines {
		input, isInput := strings.CutPrefix(line, "$ ")
		switch {
		case isInput:
			found = append(found, command{input: input})
		case len(found) == 0: // text before the first command, such as a comment
		case continued:
			found[len(found)-1].input += line
		default:
			found[len(found)-1].output += line
		}
		continued = (isInput || continued) && strings.HasSuffix(line, "\\\n")
	}
	return found
}

// hidden matches commands in a block that begins with something else, which would not run.
var hidden = regexp.MustCompile(`(?m)^(bin/)?(quayctl|mycloud|kubectl|helm) [a-z]`)

var assignment = regexp.MustCompile(`^[a-z]+=`)

// program reports whether a text begins with the name of a program of ours, of this machine or of the shell.
func program(content string) bool {
	fields := strings.Fields(content)
	if len(fields) == 0 {
		return false
	}
	name := fields[0]
	if slices.Contains([]string{".", "export", "set", "cd", "umask", "quayctl", "quaymaster", "mycloud", "kubectl", "helm", "kustomize"}, name) ||
		strings.HasPrefix(name, "bin/") || assignment.MatchString(name) {
		return true
	}
	_, err := exec.LookPath(name)
	return err == nil && strings.ToLower(name) == name && !strings.HasSuffix(name, ":")
}

// differs returns how an output differs from what the page shows, up to the width of columns and what varies. A line with
// three dots in the page stands for any number of lines.
func (b *block) differs(shown, got string) string {
	want, has := b.plain(shown), b.plain(got)
	var pattern strings.Builder
	for line := range strings.Lines(want) {
		if line == "...\n" {
			pattern.WriteString("(?:.*\n)*?")
			continue
		}
		pattern.WriteString(regexp.QuoteMeta(line))
	}
	if regexp.MustCompile("^" + pattern.String() + "$").MatchString(has) {
		return ""
	}
	return cmp.Diff(want, has)
}

var columns = regexp.MustCompile(`[ \t]+`)

func (b *block) plain(output string) string {
	for _, pattern := range b.varies {
		output = pattern.ReplaceAllString(output, "VARIES")
	}
	var plain strings.Builder
	for line := range strings.Lines(strings.TrimSpace(output)) {
		plain.WriteString(strings.TrimSpace(columns.ReplaceAllString(line, " ")) + "\n")
	}
	return plain.String()
}

func TestBlocks(t *testing.T) {
	page := "# A\n\n<!-- before: mkdir a\ncd a -->\n\nText.\n\n<!-- file: b.yaml -->\n\n```yaml\nkubectl: 1\n```\n\n" +
		"    export C=d\n    kubectl get e # f\n\n<!-- eventually -->\n<!-- varies: [0-9]+ -->\n\n    $ kubectl get \\\n      g\n    NAME  AGE\n    g     3s\n    $ true\n\n" +
		"Text.\n\n    key: value\n\n- A list:\n\n  <!-- not run: needs a cloud -->\n\n      mycloud get h\n"
	got, err := blocks([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	want := []block{
		{line: 3, commands: []command{{input: "mkdir a\ncd a"}}},
		{line: 11, file: "b.yaml", text: "kubectl: 1\n"},
		{line: 14, commands: []command{{input: "export C=d\nkubectl get e # f\n"}}},
		{
			line: 20, commands: []command{{"kubectl get \\\n  g\n", "NAME  AGE\ng     3s\n"}, {"true\n", ""}},
			eventually: true, varies: []*regexp.Regexp{regexp.MustCompile("[0-9]+")},
		},
		{line: 34, reason: "needs a cloud", commands: []command{{input: "mycloud get h\n"}}},
	}
	for i := range got {
		if got[i].file == "" {
			got[i].text = ""
		}
	}
	opts := cmp.Options{cmp.AllowUnexported(block{}, command{}), cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() })}
	// The text that is not run has no commands.
	got = slices.DeleteFunc(got, func(b block) bool { return b.commands == nil && b.file == "" })
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for page, want := range map[string]string{
		"<!-- file: a -->\n\nText.\n":           "line 3: must be a code block, because of the mark before it",
		"    what:\n    kubectl get x\n":        "line 1: must begin with a command, because it contains one",
		"<!-- run -->\n":                        "line 1: unknown mark \"<!-- run -->\\n\"",
		"<!-- not run -->\n\n    true\n":        `line 1: mark "not run": must have a value, except for eventually and needs traffic`,
		"<!-- not run: why -->\n\n    a: b\n":   "line 3: the block has marks, but no commands",
		"<!-- varies: ( -->\n\n    true\n":      "line 1: error parsing regexp: missing closing ): `(`",
		"<!-- eventually: 3s -->\n\n    true\n": `line 1: mark "eventually": must have a value, except for eventually and needs traffic`,
	} {
		if _, err := blocks([]byte(page)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", page, err, want)
		}
	}
}

func TestDiffers(t *testing.T) {
	b := block{varies: []*regexp.Regexp{regexp.MustCompile(`lb-[0-9a-f]+`)}}
	const shown = "ID    NAME\nlb-1a  web\n...\ntotal 3\n"
	for got, same := range map[string]bool{
		"ID          NAME\nlb-2bcdef   web\nlb-3  api\nx\ntotal 3\n": true,
		"ID NAME\nlb-2 web\ntotal 3":                                 true,
		"ID NAME\nlb-2 api\ntotal 3":                                 false,
		"ID NAME\nlb-2 web\ntotal 3\nmore":                           false,
		"":                                                           false,
	} {
		if diff := b.differs(shown, got); (diff == "") != same {
			t.Errorf("%q: %s", got, diff)
		}
	}
}

// errStopped is the error of a shell that has terminated.
var errStopped = errors.New("the shell has terminated")
