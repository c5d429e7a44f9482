package reference

import (
	"fmt"
	"slices"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/lint"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/volume"
)

// findingsPage has the findings that are not of another cloud's catalog.
const findingsPage = "docs/reference/findings.md"

// Chapter are the findings about one thing.
type Chapter struct {
	Title string
	Rules []finding.Doc
}

// Chapters are the findings that quayctl has, other clouds' apart.
func Chapters() []Chapter {
	return []Chapter{
		{"Services of type LoadBalancer", loadbalancer.Docs()},
		{"Services under policies", policy.Docs()},
		{"Policies", policy.DefinitionDocs()},
		{"PersistentVolumes", volume.ZoneDocs()},
		{"PersistentVolumeClaims", volume.GrowthDocs()},
		{"Manifests, before any cluster sees them", lint.Docs()},
	}
}

// Finding is what there is to say about a finding's id.
type Finding struct {
	ID       string           `json:"id"`
	Severity finding.Severity `json:"severity"`
	About    string           `json:"about"`
	Help     string           `json:"help"`
	// Page has a section of the id's name, seen from the root of the repository.
	Page string `json:"page"`
}

// Findings are all that quayctl may have.
func Findings() []Finding { return findings(func(*catalog.Catalog) bool { return true }) }

// FindFinding is the one of an id. It reads no other catalogs than the id may be of.
func FindFinding(id string) (f Finding, found bool) {
	all := findings(func(c *catalog.Catalog) bool { return c.Names(id) })
	at := slices.IndexFunc(all, func(f Finding) bool { return f.ID == id })
	if at < 0 {
		return Finding{}, false
	}
	return all[at], true
}

// findings are those of all chapters, and of the catalogs that are wanted.
func findings(wanted func(*catalog.Catalog) bool) []Finding {
	var all []Finding
	for _, chapter := range Chapters() {
		all = append(all, chapter.findings(findingsPage)...)
	}
	for _, name := range catalog.Names() {
		if c, _ := catalog.Find(name); wanted(c) {
			about := Chapter{"Services of type LoadBalancer of " + c.Title, c.Docs()}
			all = append(all, about.findings("docs/reference/catalogs/"+name+".md")...)
		}
	}
	return all
}

func (c Chapter) findings(page string) []Finding {
	var all []Finding
	for _, r := range c.Rules {
		all = append(all, Finding{ID: r.ID, Severity: r.Severity, About: c.Title, Help: r.Help, Page: page + "#" + r.ID})
	}
	return all
}

// Text is the finding for a terminal.
func (f Finding) Text() string {
	return fmt.Sprintf("%s\n  a finding (%s) about %s\n\n%s\n  %-10s %s\n", f.ID, f.Severity, f.About, paragraph(f.Help), "page", f.Page)
}
