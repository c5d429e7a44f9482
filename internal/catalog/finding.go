package catalog

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// The ids of findings that every catalog has, behind its name and a dash. Docs, metrics and users' suppressions refer to them:
// they must not change. A catalog's own rules add ids of theirs.
const (
	idUnknownKey   = "unknown-key"
	idInvalidValue = "invalid-value"
	idUnknownPort  = "unknown-port"
	idRequirement  = "requirement"
	idChanged      = "changed"
	idDeprecated   = "deprecated"
	idShadowed     = "shadowed"
	idNotOwned     = "not-owned"
)

// Rules documents every finding of the catalog.
func (c *Catalog) Docs() []finding.Doc {
	all := []finding.Doc{
		{ID: idUnknownKey, Severity: finding.Error, Help: "The controller reads no such key; the nearest one that it reads is named. A linter refuses, admission warns unless it is told otherwise: a newer release of the controller may know the key."},
		{ID: idInvalidValue, Severity: finding.Error, Help: "The controller does not understand the value, or understands something else than was meant. Where it ignores the value without harm, the finding is a warning."},
		{ID: idUnknownPort, Severity: finding.Warning, Help: "The key is for a port that the Service does not have."},
		{ID: idRequirement, Severity: finding.Error, Help: "The key needs another key, or a field of the Service, or must not stand beside it. Where it has no effect otherwise, the finding is a warning."},
		{ID: idChanged, Severity: finding.Error, Help: "The value cannot change while there is a load balancer. Where the controller ignores the change, the finding is a warning."},
		{ID: idDeprecated, Severity: finding.Warning, Help: "The controller's authors want to be rid of the key."},
		{ID: idShadowed, Severity: finding.Warning, Help: "The key is another name of one that is there, too, and is not read."},
		{ID: idNotOwned, Severity: finding.Warning, Help: "The key has no effect, because the controller does not act on the Service."},
	}
	for _, r := range c.read().Rules {
		all = append(all, finding.Doc{ID: r.ID, Severity: r.OnBreach.Severity(), Help: r.Help})
	}
	for i := range all {
		all[i].ID = c.id(all[i].ID)
	}
	return all
}

// Names tells whether a finding's id is the catalog's, by its beginning.
func (c *Catalog) Names(id string) bool { return strings.HasPrefix(id, c.Name+"-") }

func (c *Catalog) id(rule string) string { return c.Name + "-" + rule }

var annotations = field.NewPath("metadata", "annotations")

// Path is that of a key, or of a field as it is.
func Path(keyOrField string) string {
	if _, isField := fields[keyOrField]; isField {
		return keyOrField
	}
	return annotations.Key(keyOrField).String()
}

// finding is about a setting.
func (r *reading) finding(s *setting, rule string, severity finding.Severity, message, remedy string) finding.Finding {
	return finding.Finding{
		ID: r.catalog.id(rule), Catalog: r.catalog.Name, Severity: severity, Type: field.ErrorTypeInvalid,
		Field: Path(s.key), Value: s.raw, Message: message, Remedy: remedy,
	}
}

func (r *reading) invalid(s *setting) finding.Finding {
	severity := s.OnInvalid.Severity()
	if s.Annotation.Severity != "" {
		severity = s.Annotation.Severity
	}
	f := r.finding(s, idInvalidValue, severity, "must be "+s.Words(), s.Remedy)
	if text := s.err.Error(); text != "" {
		f.Message += ": " + text
	}
	if s.Consequence != "" {
		f.Message += " (" + s.Consequence + ")"
	}
	if s.Type.Type == Enum {
		f.Type = field.ErrorTypeNotSupported
		if nearest, slips := annotation.Nearest(s.raw, s.Values); annotation.Near(s.raw, slips) {
			f.Remedy = "the nearest is " + nearest
		}
	}
	if f.Remedy == "" {
		f.Remedy = "write for example " + s.Valid
	}
	return f
}

// unknown is about a key under a prefix that no catalog of a set knows. Under a shared prefix there is a finding only if a known
// key is near.
func (c *Catalog) unknown(key, raw string, severity finding.Severity) (finding.Finding, bool) {
	f := finding.Finding{
		ID: c.id(idUnknownKey), Catalog: c.Name, Severity: severity, Type: field.ErrorTypeInvalid, Field: Path(key), Value: raw,
		Message: "the key must be one that " + c.Title + " reads", Remedy: "rename the key or remove it",
	}
	nearest, near := c.nearest(key)
	if near {
		f.Message += "; the nearest is " + nearest
	}
	// A prefix of the controller's own may begin with one that it shares.
	prefix, _ := c.split(key)
	return f, near || !slices.Contains(c.SharedPrefixes, prefix)
}

// nearest is the known key that is nearest to one that is not, under the same prefix, and whether it was probably meant.
func (c *Catalog) nearest(key string) (nearest string, near bool) {
	prefix, rest := c.split(key)
	var candidates []string
	for _, e := range c.read().entries {
		for _, known := range e.Names() {
			if p, tail := c.split(known); p == prefix {
				candidates = append(candidates, tail)
			}
		}
	}
	if len(candidates) == 0 {
		return "", false
	}
	tail, slips := annotation.Nearest(rest, candidates)
	return prefix + tail, annotation.Near(rest, slips)
}

// split cuts a key behind the longest of the catalog's prefixes that it has.
func (c *Catalog) split(key string) (prefix, rest string) {
	for _, list := range [][]string{c.Prefixes, c.SharedPrefixes} {
		for _, p := range list {
			if strings.HasPrefix(key, p) && len(p) > len(prefix) {
				prefix = p
			}
		}
	}
	return prefix, key[len(prefix):]
}
