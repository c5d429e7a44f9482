package reference

import (
	"fmt"
	"strings"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/rules"
)

// Page is the reference of another cloud's catalog, in Markdown.
func Page(c *catalog.Catalog) string {
	var b strings.Builder
	d := c.Document()
	fmt.Fprintf(&b, "# Annotations of %s\n\n%s\n\n", d.Title, d.Help)
	fmt.Fprintf(&b, "Catalog `%s`, read from %s at %s.\n\n%s\n", d.Name, d.Controller, d.Version, owns(d.Owns))
	if len(d.Annotations) > 0 {
		fmt.Fprint(&b, "\n| key | type | default |\n|---|---|---|\n")
	}
	for _, e := range Entries(c.Name) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Key, e.Type, e.Default)
	}
	for _, e := range Entries(c.Name) {
		b.WriteString(e.markdown())
	}
	b.WriteString("\n## Findings\n")
	for _, r := range c.Rules() {
		b.WriteString(finding(r))
	}
	if len(d.Left) > 0 {
		b.WriteString("\n## What is left out\n\n")
	}
	for _, left := range d.Left {
		fmt.Fprintf(&b, "- `%s`: %s\n", left.Name, left.Why)
	}
	return b.String()
}

func finding(r rules.Rule) string {
	return fmt.Sprintf("\n### %s\n\n%s (%s)\n", r.ID, r.Help, r.Severity)
}

// owns says which Services a controller acts on.
func owns(o catalog.Ownership) string {
	var which []string
	if o.NoClass {
		which = append(which, "those without `loadBalancerClass`")
	}
	for _, class := range o.Classes {
		which = append(which, "those of the class `"+class+"`")
	}
	if o.AnyClass {
		which = []string{"those of any `loadBalancerClass`"}
	}
	text := "Services that it acts on: " + strings.Join(which, ", ") + "."
	if o.Note != "" {
		text += " " + o.Note
	}
	return text
}

// Catalogs are the names, titles and versions of all catalogs, one a line of a Markdown table.
func Catalogs() string {
	var b strings.Builder
	b.WriteString("| catalog | cloud | keys | read from |\n|---|---|---|---|\n")
	fmt.Fprintf(&b, "| [%s](annotations.md) | DLB | %d | this project |\n", loadbalancer.Catalog, len(loadbalancer.Keys()))
	for _, name := range catalog.Names() {
		c, _ := catalog.Find(name)
		d := c.Document()
		fmt.Fprintf(&b, "| [%s](catalogs/%s.md) | %s | %d | %s %s |\n", name, name, d.Title, len(d.Annotations), d.Controller, d.Version)
	}
	return b.String()
}
