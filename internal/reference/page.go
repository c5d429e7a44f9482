package reference

import (
	"fmt"
	"strings"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// notice stands on pages that are made from the code.
const notice = "<!-- Made from the code by make generate. -->\n\n"

// Page is the reference of another cloud's catalog, in Markdown.
func Page(c *catalog.Catalog) string {
	var b strings.Builder
	d := c.Document()
	fmt.Fprintf(&b, "# Annotations of %s\n\n%s%s\n\n", d.Title, notice, prose(d.Help))
	fmt.Fprintf(&b, "Catalog `%s`, read from %s at %s.\n\n%s\n", d.Name, d.Controller, d.Version, prose(owns(d.Owns)))
	if len(d.Annotations) > 0 {
		fmt.Fprint(&b, "\n| key | type | default |\n|---|---|---|\n")
	}
	for _, e := range Entries(c.Name) {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", cell(e.Key), anchor(e.Key), cell(e.Type), cell(e.Default))
	}
	for _, e := range Entries(c.Name) {
		b.WriteString(e.markdown())
	}
	b.WriteString("\n## Findings\n")
	for _, r := range c.Docs() {
		b.WriteString(section(r))
	}
	if len(d.Left) > 0 {
		b.WriteString("\n## What is left out\n\n")
	}
	for _, left := range d.Left {
		fmt.Fprintf(&b, "- `%s`: %s\n", left.Name, prose(left.Why))
	}
	return b.String()
}

// FindingsPage is the reference of what may be found, in Markdown, other clouds' findings apart.
func FindingsPage(chapters []Chapter) string {
	var page strings.Builder
	fmt.Fprint(&page, "# Findings\n\n"+notice+
		"What Quaymaster may say of an object. The ids are stable: they stand in metrics, in the API server's audit log and in\n"+
		"machine-readable output. The severity is that of a mistake that a request introduces: what was so before only warns, and\n"+
		"policies have an enforcement of their own. Those about other clouds' annotations are on the pages of [their catalogs](catalogs.md).\n")
	for _, c := range chapters {
		fmt.Fprintf(&page, "\n## %s\n", c.Title)
		for _, r := range c.Rules {
			page.WriteString(section(r))
		}
	}
	return page.String()
}

// CatalogsPage lists the catalogs, in Markdown.
func CatalogsPage(names []string) string {
	return "# Catalogs\n\n" + notice +
		"The clouds whose annotations are known, with what that was read from. [How they are chosen](../guides/other-clouds.md).\n\n" + index(names)
}

func section(r finding.Doc) string {
	return fmt.Sprintf("\n### %s\n\n%s (%s)\n", r.ID, prose(r.Help), r.Severity)
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

// Summary is what a list of catalogs says of one.
type Summary struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Keys counts annotations and families of them.
	Keys int `json:"keys"`
	// From is what the knowledge was read from.
	From string `json:"from"`
}

// Catalogs are the summaries of catalogs, which exist.
func Catalogs(names []string) []Summary {
	var all []Summary
	for _, name := range names {
		s := Summary{Name: name, Title: titleDLB, Keys: len(Entries(name)), From: ourselves}
		if c, found := catalog.Find(name); found {
			s.Title, s.From = c.Title, from(c.Head)
		}
		all = append(all, s)
	}
	return all
}

func index(names []string) string {
	var b strings.Builder
	b.WriteString("| catalog | cloud | keys | read from |\n|---|---|---|---|\n")
	for _, s := range Catalogs(names) {
		page := "catalogs/" + s.Name + ".md"
		if s.Name == loadbalancer.Catalog {
			page = "annotations.md"
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s | %d | %s |\n", s.Name, page, cell(s.Title), s.Keys, cell(s.From))
	}
	return b.String()
}
