package reference

import (
	"cmp"
	"fmt"
	"strings"

	"quaymaster.dev/internal/wrap"
)

const (
	// margin indents the text below a title.
	margin = "  "
	// column is the column in which the text of a label begins.
	column = 13
)

// Text formats the entry for a terminal.
func (e Entry) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  of %s (catalog %s)\n\n%s\n", e.Key, e.Title, e.Catalog, paragraph(e.Help))
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, margin+"%-10s %s\n", label, text)
		}
	}
	prose := func(label, text string) { line(label, wrap.Text(text, column, column, wrap.Width)) }
	line("type", e.Type)
	prose("must be", e.Allowed)
	line("rule", e.Rule)
	prose("also", strings.Join(e.Aliases, ", "))
	if e.Written {
		line("written", "by the controller")
	} else {
		prose("default", cmp.Or(e.Default, "none"))
		line("per port", cmp.Or(e.PortForm, "no"))
		prose("change", cmp.Or(e.Change, "possible"))
	}
	prose("deprecated", e.Deprecated)
	for _, rule := range e.Rules {
		prose("note", rule)
	}
	line("example", e.example())
	line("source", strings.Join(append([]string{e.From}, e.Source...), "\n"+strings.Repeat(" ", column)))
	return b.String()
}

// placed replaces the placeholders of a family in examples.
var placed = strings.NewReplacer(
	"{port}", "80", "{portname}", "http", "{portref}", "http", "{protocol}", "tcp", "{index}", "1", "{any}", "name",
)

// example returns the annotation as it is written in a manifest.
func (e Entry) example() string { return fmt.Sprintf("%s: %q", placed.Replace(e.Key), e.Example) }

// paragraph formats text below a title.
func paragraph(text string) string {
	return margin + wrap.Text(text, len(margin), len(margin), wrap.Width) + "\n"
}
