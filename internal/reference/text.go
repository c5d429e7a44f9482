package reference

import (
	"fmt"
	"strings"
)

// Text is the entry for a terminal.
func (e Entry) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  of %s (catalog %s)\n\n", e.Key, e.Title, e.Catalog)
	fmt.Fprintf(&b, "  %s\n\n", e.Help)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", label, text)
		}
	}
	line("type", e.Type)
	line("must be", e.Allowed)
	line("default", e.Default)
	line("rule", e.Rule)
	line("per port", e.PortForm)
	line("also", strings.Join(e.Aliases, ", "))
	if e.Written {
		line("written", "by the controller itself")
	}
	line("deprecated", e.Deprecated)
	for _, rule := range e.Rules {
		line("note", rule)
	}
	line("example", fmt.Sprintf("%s: %q", e.Key, e.Example))
	line("source", strings.Join(e.Source, ", "))
	return b.String()
}

// markdown is the entry as a section of a page.
func (e Entry) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s: %q\n\nType %s: must be %s.\n", e.heading(), e.Help, e.Key, e.Example, e.Type, e.Allowed)
	paragraph := func(format, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n"+format+"\n", text)
		}
	}
	paragraph("Default: %s.", e.Default)
	paragraph("For one port: `%s`.", e.PortForm)
	if len(e.Aliases) > 0 {
		paragraph("Read where that is absent: `%s`.", strings.Join(e.Aliases, "`, `"))
	}
	if e.Written {
		paragraph("%s", "The controller writes it itself.")
	}
	paragraph("Deprecated: %s.", e.Deprecated)
	for _, rule := range e.Rules {
		paragraph("%s", rule)
	}
	if len(e.Source) > 0 {
		paragraph("Source: %s.", strings.Join(e.Source, ", "))
	}
	return b.String()
}

// heading is the key without what all keys of a page begin with.
func (e Entry) heading() string { return e.Key }
