package reference

import (
	"fmt"
	"regexp"
	"strings"
)

// prose escapes the texts of catalogs for Markdown, except between backticks.
func prose(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("*", `\*`, "<", `\<`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

// cell escapes the text of a table cell, which | ends even between backticks.
func cell(text string) string { return strings.ReplaceAll(prose(text), "|", `\|`) }

// unlinked matches the characters that code hosts remove from the anchor of a heading.
var unlinked = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// markdown formats the entry as a section of a page.
func (e Entry) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s\n\nType %s: must be %s.\n",
		e.Key, prose(e.Help), e.example(), e.Type, prose(e.Allowed))
	paragraph := func(format, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n"+format+"\n", text)
		}
	}
	paragraph("Default: %s.", prose(e.Default))
	if e.PortForm == e.Key {
		paragraph("%s", "The key is for one port.")
	} else {
		paragraph("For one port: `%s`.", e.PortForm)
	}
	paragraph("Aliases, read if the key is absent: `%s`.", strings.Join(e.Aliases, "`, `"))
	if e.Written {
		paragraph("%s", "The controller writes it.")
	}
	paragraph("Deprecated: %s.", prose(e.Deprecated))
	for _, rule := range e.Rules {
		paragraph("%s", prose(rule))
	}
	paragraph("%s", prose(e.Change))
	paragraph("Source: %s.", prose(strings.Join(e.Source, ", ")))
	return b.String()
}
