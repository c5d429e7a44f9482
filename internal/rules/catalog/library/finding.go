package library

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/finding"
)

// The names of the findings that every catalog has; ids are these with the catalog's prefix. Docs, metrics and users'
// suppressions refer to ids: they must not change. The checks of a catalog add further ids.
const (
	IDUnknownKey    = "unknown-key"
	IDPlaceholder   = "placeholder"
	IDInvalidValue  = "invalid-value"
	IDUnknownPort   = "unknown-port"
	IDRequirement   = "requirement"
	IDChanged       = "changed"
	IDDeprecated    = "deprecated"
	IDShadowed      = "shadowed"
	IDVersion       = "version"   // only of catalogs that know versions
	IDReadOnly      = "read-only" // only of catalogs with such keys
	IDNotOwned      = "not-owned"
	IDPortForm      = "port-form"      // only of catalogs with forms for ports
	IDAmbiguousPort = "ambiguous-port" // likewise
)

// Docs documents every finding of the catalog.
func (c *Catalog) Docs() []finding.Doc {
	known, used := finding.Docs(), c.usedIDs()
	var docs []finding.Doc
	for _, d := range known.Catalogs {
		ofPorts := d.ID == IDPortForm || d.ID == IDAmbiguousPort
		readOnly := slices.ContainsFunc(c.contents().Entries, func(e *Entry) bool { return e.ReadOnly })
		if ofPorts && !c.contents().PortForms || d.ID == IDReadOnly && !readOnly || d.ID == IDVersion && !c.contents().Versioned() || c.Own && !used[d.ID] {
			continue
		}
		if at := slices.IndexFunc(known.OwnCatalog, func(own finding.Doc) bool { return own.ID == d.ID }); c.Own && at >= 0 {
			d = known.OwnCatalog[at]
		}
		d.ID = c.ID(d.ID)
		docs = append(docs, d)
	}
	for _, d := range c.contents().Findings {
		docs = append(docs, finding.Doc{ID: c.ID(d.ID), Severity: finding.Error, Help: d.Help})
	}
	for _, r := range c.contents().Checks {
		docs = append(docs, finding.Doc{ID: c.ID(r.ID), Severity: r.OnBreach.Severity(), Help: r.Help})
	}
	return docs
}

// usedIDs returns which of the usual findings the catalog can have.
func (c *Catalog) usedIDs() map[string]bool {
	used := map[string]bool{
		IDUnknownKey: true, IDInvalidValue: true, IDPlaceholder: true, IDNotOwned: true, IDUnknownPort: true, IDPortForm: true,
		IDAmbiguousPort: true,
	}
	for _, e := range c.contents().Entries {
		used[IDDeprecated] = used[IDDeprecated] || e.Deprecated != ""
		used[IDShadowed] = used[IDShadowed] || len(e.Aliases) > 0
		used[IDChanged] = used[IDChanged] || e.OnChange != "" && e.ChangeID == ""
		for _, q := range e.Requires {
			used[IDRequirement] = used[IDRequirement] || q.ID == ""
		}
	}
	return used
}

// OwnsID reports whether the id of a finding belongs to the catalog.
func (c *Catalog) OwnsID(id string) bool { return strings.HasPrefix(id, c.idPrefix()) }

func (c *Catalog) idPrefix() string {
	if c.IDPrefix != "" {
		return c.IDPrefix
	}
	return c.Name + "-"
}

// ID returns the id of the finding with a name in the catalog.
func (c *Catalog) ID(name string) string {
	if other, renamed := c.IDs[name]; renamed {
		name = other
	}
	return c.idPrefix() + name
}
