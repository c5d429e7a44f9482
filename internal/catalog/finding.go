package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog/spec"
	"quaymaster.dev/internal/finding"
)

// The names of the findings that every catalog has; ids are these with the catalog's prefix. Docs, metrics and users'
// suppressions refer to ids: they must not change. The checks of a catalog add further ids.
const (
	idUnknownKey   = "unknown-key"
	idInvalidValue = "invalid-value"
	idUnknownPort  = "unknown-port"
	idRequirement  = "requirement"
	idChanged      = "changed"
	idDeprecated   = "deprecated"
	idShadowed     = "shadowed"
	idNotOwned     = "not-owned"
	// Only catalogs with forms for ports have these.
	idPortForm      = "port-form"
	idAmbiguousPort = "ambiguous-port"
)

// Docs documents every finding of the catalog.
func (c *Catalog) Docs() []finding.Doc {
	all := []finding.Doc{
		finding.NewDoc(idUnknownKey, finding.Error,
			"The controller does not read the annotation, which is most likely a typo of the suggested "+
				"one. quayctl lint reports an error, admission by default a warning, because a newer release "+
				"of the controller may read it."),
		finding.NewDoc(idInvalidValue, finding.Error,
			"The controller cannot parse the value, or misreads it. If it ignores the value without harm, "+
				"the finding is a warning."),
		finding.NewDoc(idUnknownPort, finding.Warning, "The annotation is for a port that the Service does not have."),
		finding.NewDoc(idRequirement, finding.Error,
			"The annotation requires another one, or a field of the Service, or must not be combined with "+
				"it. If it only has no effect, the finding is a warning."),
		finding.NewDoc(idChanged, finding.Error,
			"The value must not change once there is a load balancer. If the controller ignores the "+
				"change, the finding is a warning."),
		finding.NewDoc(idDeprecated, finding.Warning, "The controller's authors have deprecated the annotation."),
		finding.NewDoc(idShadowed, finding.Warning,
			"The annotation is an alias of another one that is also set, and is not read."),
		finding.NewDoc(idNotOwned, finding.Warning,
			"The annotation has no effect, because the controller does not act on the Service."),
	}
	if c.Own {
		for i, d := range all {
			if own, differs := ownDocs[d.ID]; differs {
				all[i] = own
			}
		}
	}
	if c.contents().portForms {
		all = append(all,
			finding.NewDoc(idPortForm, finding.Error, "An annotation of the whole load balancer was written for a single port."),
			finding.NewDoc(idAmbiguousPort, finding.Error,
				"An annotation sets a listener by its port's number and another one by its name. Remove "+
					"one of the two, even if the values are equal."),
		)
	}
	used := c.usedIDs()
	var docs []finding.Doc
	for _, d := range all {
		if !c.Own || used[d.ID] {
			d.ID = c.ID(d.ID)
			docs = append(docs, d)
		}
	}
	for _, d := range c.contents().Findings {
		docs = append(docs, finding.Doc{ID: c.ID(d.ID), Severity: finding.Error, Help: d.Help})
	}
	for _, r := range c.contents().Checks {
		docs = append(docs, finding.Doc{ID: c.ID(r.ID), Severity: r.OnBreach.Severity(), Help: r.Help})
	}
	return docs
}

// ownDocs documents the findings that are different for the catalog of Quaymaster's own controller.
var ownDocs = map[string]finding.Doc{
	idUnknownKey: finding.NewDoc(idUnknownKey, finding.Error,
		"The controller has no such annotation, which is most likely a typo of the suggested one."),
	idInvalidValue: finding.NewDoc(idInvalidValue, finding.Error,
		"The value is not of the annotation's type, or out of range. Nothing is trimmed, clamped or silently "+
			"defaulted."),
	idUnknownPort: finding.NewDoc(idUnknownPort, finding.Error,
		"The suffix of the annotation is neither the number nor the name of a port of the Service. A suffix of "+
			"digits is a number."),
	idChanged: finding.NewDoc(idChanged, finding.Error, "An immutable value changed."),
}

// usedIDs returns which of the usual findings the catalog can have.
func (c *Catalog) usedIDs() map[string]bool {
	used := map[string]bool{
		idUnknownKey: true, idInvalidValue: true, idNotOwned: true, idUnknownPort: true, idPortForm: true,
		idAmbiguousPort: true,
	}
	for _, e := range c.contents().entries {
		used[idDeprecated] = used[idDeprecated] || e.Deprecated != ""
		used[idShadowed] = used[idShadowed] || len(e.Aliases) > 0
		used[idChanged] = used[idChanged] || e.OnChange != "" && e.ChangeID == ""
		for _, q := range e.Requires {
			used[idRequirement] = used[idRequirement] || q.ID == ""
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

// Path returns the path of an annotation key, or a field unchanged.
func Path(keyOrField string) string {
	if spec.Has(keyOrField) {
		return keyOrField
	}
	return "metadata.annotations[" + keyOrField + "]"
}

// finding returns a finding about a setting. Its check is the one of all annotations with this id.
func (v *View) finding(s *Setting, id string, outcome Outcome, message, remedy string) finding.Finding {
	return finding.Finding{
		ID: v.catalog.ID(id), Check: id, Catalog: v.catalog.Name, Severity: outcome.Severity(),
		Type: field.ErrorTypeInvalid, Field: Path(s.Key), Value: s.Raw, Message: message, Remedy: remedy,
	}
}

// invalid reports a value that is not of the type.
func (v *View) invalid(s *Setting) finding.Finding {
	f := v.finding(s, idInvalidValue, s.OnInvalid, "must be "+s.Expected(), s.Remedy)
	if variant := slices.Index(s.base.variants, s.entry); variant >= 0 {
		f.Check += " of variant " + strconv.Itoa(variant)
	}
	if s.Annotation.Severity != "" {
		f.Severity = s.Annotation.Severity
	}
	if text := s.Err.Error(); text != "" {
		f.Message += ": " + text
	}
	if s.Consequence != "" {
		f.Message += " (" + s.Consequence + ")"
	}
	if s.Type.Type == annotation.Enum || s.Type.Type == annotation.Bool && v.catalog.Own {
		f.Type = field.ErrorTypeNotSupported
		words := s.Values
		if s.Type.Type == annotation.Bool {
			words = []string{"true", "false"}
		}
		// Suggest only close words: a wrong guess could turn a private load balancer into a public one.
		if suggestion, ok := annotation.Suggest(s.Raw, words); ok {
			f.Remedy = fmt.Sprintf("did you mean %q?", suggestion)
		}
	}
	if f.Remedy == "" {
		f.Remedy = "for example " + s.Valid
	}
	return f
}

// unknownPort reports a form for a port that the Service does not have.
func (v *View) unknownPort(s *Setting) finding.Finding {
	message := "suffix " + strconv.Quote(s.suffix[1:]) + " must be the number or name of a port of the Service"
	if !s.named && len(s.suffix) > 2 && s.suffix[1] == '0' {
		message += " without leading zeros"
	}
	remedy := "remove the key: the Service has no ports"
	if len(v.Service.Spec.Ports) > 0 {
		remedy = "use one of " + v.portNames()
	}
	return v.finding(s, idUnknownPort, Refused, message, remedy)
}

// portNames lists the numbers and names of ports that a suffix may be.
func (v *View) portNames() string {
	if v.portList == "" {
		v.portList = v.listPorts()
	}
	return v.portList
}

func (v *View) listPorts() string {
	const most = 10
	var names []string
	seen := map[string]bool{}
	for i, p := range v.Service.Spec.Ports {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(v.Service.Spec.Ports)-most)
		}
		text := spec.Number(p)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		if !seen[text] {
			names = append(names, text)
			seen[text] = true
		}
	}
	return strings.Join(names, ", ")
}

// ambiguous reports ports that two forms of a key set. The finding points to the form by name, because the one by
// number may govern other ports as well.
func (v *View) ambiguous(s *Setting) []finding.Finding {
	if !s.undecided || !s.named || s.suffix == "" {
		return nil
	}
	var findings []finding.Finding
	for _, i := range s.ports {
		if v.governing[s.base.form][i] != ambiguous {
			continue
		}
		byNumber := s.name + "." + spec.Number(v.Service.Spec.Ports[i])
		f := v.finding(s, idAmbiguousPort, Refused,
			"must not be combined with "+byNumber+", which sets the same port", "remove one of the two")
		f.Subject = f.Field + " and " + byNumber + "=" + v.Service.Annotations[byNumber]
		f.Listeners = []string{spec.Listener(v.Service.Spec.Ports[i])}
		findings = append(findings, f)
	}
	return findings
}
