package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/catalog/spec"
	"quaymaster.dev/internal/rules/finding"
)

// Path returns the path of an annotation key, or a field unchanged.
func Path(keyOrField string) string {
	if spec.Has(keyOrField) {
		return keyOrField
	}
	return finding.FieldOf(keyOrField)
}

// finding returns a finding about a setting. Its check is the one of all annotations with this id.
func (v *View) finding(s *Setting, id string, outcome document.Outcome, message, remedy string) finding.Finding {
	return finding.Finding{
		ID: v.catalog.ID(id), Check: id, Catalog: v.catalog.Name, Severity: outcome.Severity(),
		Outcome: string(outcome), Type: field.ErrorTypeInvalid, Field: Path(s.Key), Value: s.Raw, Message: message,
		Remedy: remedy,
	}
}

// invalid reports a value that is not of the type.
func (v *View) invalid(s *Setting) finding.Finding {
	f := v.finding(s, library.IDInvalidValue, s.OnInvalid, "must be "+s.Expected(), s.Remedy)
	if variant := slices.Index(s.Base.Alternatives, s.Entry); variant >= 0 {
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

// unreadField reports a field of JSON that the controller ignores.
func (v *View) unreadField(s *Setting, path string, known []string) finding.Finding {
	name := path[strings.LastIndexByte(path, '.')+1:]
	remedy := "use only " + strings.Join(known, ", ")
	if suggestion, ok := annotation.Suggest(name, known); ok {
		remedy = fmt.Sprintf("did you mean %q?", suggestion)
	}
	return v.finding(s, library.IDInvalidValue, document.Ignored, "has the field "+path+", which the controller ignores", remedy)
}

// misspelledEntries reports keys in a map that are probably typos of those that the catalog describes. Vendors pass others
// on to clouds, which know more of them than the catalog.
func (v *View) misspelledEntries(s *Setting) []finding.Finding {
	if len(s.Entries) == 0 || len(s.Value.Map) == 0 {
		return nil
	}
	var findings []finding.Finding
	known := slices.Sorted(maps.Keys(s.Entries))
	keys := slices.Sorted(maps.Keys(s.Value.Map))
	for _, key := range keys[:min(len(keys), maxSuggestions)] {
		if suggestion, near := annotation.Suggest(key, known); near && s.Entries[key] == nil {
			findings = append(findings, v.finding(s, library.IDInvalidValue, document.Ignored,
				"has the key "+annotation.Quote(key)+", which is not known", fmt.Sprintf("did you mean %q?", suggestion)))
		}
	}
	return findings
}

// unknownPort reports a form for a port that the Service does not have.
func (v *View) unknownPort(s *Setting) finding.Finding {
	message := "suffix " + strconv.Quote(s.suffix[1:]) + " must be the number or name of a port of the Service"
	if !s.named && len(s.suffix) > 2 && s.suffix[1] == '0' {
		message += " without leading zeros"
	}
	remedy := "remove the key: the Service has no ports"
	if len(v.Service.Spec.Ports) > 0 {
		remedy = "use one of " + v.ports.String()
	}
	return v.finding(s, library.IDUnknownPort, document.Refused, message, remedy)
}

// ambiguous reports ports that two forms of a key set. The finding points to the form by name, because the one by
// number may govern other ports as well.
func (v *View) ambiguous(s *Setting) []finding.Finding {
	if !s.undecided || !s.named || s.suffix == "" {
		return nil
	}
	var findings []finding.Finding
	for _, i := range s.ports {
		if v.governing[s.Base.Form][i] != ambiguous {
			continue
		}
		byNumber := s.name + "." + spec.Number(v.Service.Spec.Ports[i])
		f := v.finding(s, library.IDAmbiguousPort, document.Refused,
			"must not be combined with "+byNumber+", which sets the same port", "remove one of the two")
		f.Subject = f.Field + " and " + byNumber + "=" + v.Service.Annotations[byNumber]
		f.Listeners = []string{spec.Listener(v.Service.Spec.Ports[i])}
		findings = append(findings, f)
	}
	return findings
}
