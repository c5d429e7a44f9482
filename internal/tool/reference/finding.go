package reference

import (
	"fmt"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// findingsPage is the page with the findings that do not belong to a catalog.
const findingsPage = "docs/reference/findings.md"

// Finding describes a finding's id.
type Finding struct {
	ID       string           `json:"id"`
	Severity finding.Severity `json:"severity"`
	About    string           `json:"about"`
	Help     string           `json:"help"`
	// Page is the path of the page that documents the finding, from the root of the repository, with the anchor.
	Page string `json:"page"`
}

// Findings returns all findings.
func Findings() []Finding { return findings(func(*library.Catalog) bool { return true }) }

// FindFinding returns the finding with an id. It loads only catalogs that the id may belong to.
func FindFinding(id string) (f Finding, found bool) {
	all := findings(func(c *library.Catalog) bool { return c.OwnsID(id) })
	at := slices.IndexFunc(all, func(f Finding) bool { return f.ID == id })
	if at < 0 {
		return Finding{}, false
	}
	return all[at], true
}

// KnownFinding reports whether findings of a library have an id.
func KnownFinding(l *library.Library, id string) bool {
	is := func(d finding.Doc) bool { return d.ID == id }
	for _, chapter := range finding.Docs().Chapters {
		if slices.ContainsFunc(chapter.Findings, is) {
			return true
		}
	}
	return slices.ContainsFunc(l.Names(), func(name string) bool {
		c, _ := l.Find(name)
		return c.OwnsID(id) && slices.ContainsFunc(c.Docs(), is)
	})
}

// findings returns the findings of all chapters, and of the wanted catalogs.
func findings(wanted func(*library.Catalog) bool) []Finding {
	var all []Finding
	add := func(about string, docs []finding.Doc, page string) {
		for _, d := range docs {
			all = append(all, Finding{ID: d.ID, Severity: d.Severity, About: about, Help: d.Help, Page: page + "#" + d.ID})
		}
	}
	for _, chapter := range finding.Docs().Chapters {
		add(chapter.Title, chapter.Findings, findingsPage)
	}
	for _, name := range library.BuiltIn().Names() {
		if c, _ := library.BuiltIn().Find(name); wanted(c) {
			about := "Services of type LoadBalancer of " + c.Title
			if len(c.Kinds) > 0 {
				about = "objects of kind " + strings.Join(c.Kinds, ", ") + " of " + c.Title
			}
			add(about, c.Docs(), "docs/reference/"+PageFile(c))
		}
	}
	return all
}

// Text formats the finding for a terminal.
func (f Finding) Text() string {
	return fmt.Sprintf("%s\n  a finding (%s) about %s\n\n%s\n  %-10s %s\n",
		f.ID, f.Severity, f.About, paragraph(f.Help), "page", f.Page)
}
