package reference

import (
	"fmt"
	"slices"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/lint"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/internal/volume"
)

// findingsPage is the page with the findings that do not belong to a catalog.
const findingsPage = "docs/reference/findings.md"

// Chapter holds the findings about one topic.
type Chapter struct {
	Title string
	Rules []finding.Doc
}

// Chapters returns all findings except for those of catalogs.
func Chapters() []Chapter {
	return []Chapter{
		{"Services under policies", policy.Docs()},
		{"Policies", policy.DefinitionDocs()},
		{"PersistentVolumes", volume.ZoneDocs()},
		{"PersistentVolumeClaims", volume.GrowthDocs()},
		{"Webhooks that cannot read what they need", review.Docs()},
		{"Manifests, before any cluster sees them", lint.Docs()},
	}
}

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
func Findings() []Finding { return findings(func(*catalog.Catalog) bool { return true }) }

// FindFinding returns the finding with an id. It loads only catalogs that the id may belong to.
func FindFinding(id string) (f Finding, found bool) {
	all := findings(func(c *catalog.Catalog) bool { return c.OwnsID(id) })
	at := slices.IndexFunc(all, func(f Finding) bool { return f.ID == id })
	if at < 0 {
		return Finding{}, false
	}
	return all[at], true
}

// findings returns the findings of all chapters, and of the wanted catalogs.
func findings(wanted func(*catalog.Catalog) bool) []Finding {
	var all []Finding
	for _, chapter := range Chapters() {
		all = append(all, chapter.findings(findingsPage)...)
	}
	for _, name := range catalog.Names() {
		if c, _ := catalog.Find(name); wanted(c) {
			about := Chapter{"Services of type LoadBalancer of " + c.Title, c.Docs()}
			all = append(all, about.findings("docs/reference/"+PageFile(c))...)
		}
	}
	return all
}

func (c Chapter) findings(page string) []Finding {
	var all []Finding
	for _, r := range c.Rules {
		all = append(all, Finding{
			ID: r.ID, Severity: r.Severity, About: c.Title, Help: r.Help, Page: page + "#" + r.ID,
		})
	}
	return all
}

// Text formats the finding for a terminal.
func (f Finding) Text() string {
	return fmt.Sprintf("%s\n  a finding (%s) about %s\n\n%s\n  %-10s %s\n",
		f.ID, f.Severity, f.About, paragraph(f.Help), "page", f.Page)
}
