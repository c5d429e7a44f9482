package policy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/visible"
)

// The ids of findings about Services. Docs, metrics and users refer to them: they must not change.
const (
	idMin       = "policy-min"
	idMax       = "policy-max"
	idAllowed   = "policy-allowed"
	idPattern   = "policy-pattern"
	IDRequired  = "policy-required"
	idForbidden = "policy-forbidden"
)

// The ids of the findings that not all rules were applied.
const (
	IDTooLong  = "policy-too-long"
	IDInactive = "policy-inactive"
)

// rule limits one annotation.
type rule struct {
	// path is the path of the rule in its policy.
	path *field.Path
	// key is the annotation key. For a key of Quaymaster's own controller, catalog is the name of its catalog and known
	// the description in it. Both are empty for any other key, whose value is validated as text.
	key     string
	catalog string
	known   *document.Annotation
	min     *bound
	max     *bound
	allowed []string
	// allowedValues holds the parsed values for known keys, because a value can be written in several ways.
	allowedValues       []annotation.Value
	pattern             *pattern
	required, forbidden bool
	// invalid are the breaches by every value, for parts of the rule that are invalid.
	invalid []breach
	// message is the remedy that the author of the policy wrote.
	message string
}

// askAuthor is the remedy for an annotation whose rule is invalid.
const askAuthor = "remove the annotation, or ask the author of the policy to correct the rule"

// breach is one way in which a value breaks a rule.
type breach struct {
	id        string
	errorType field.ErrorType
	// path is the path of the part of the rule that is broken.
	path *field.Path
	// message is followed by the name of the policy or the path of the rule.
	message, remedy string
}

// check returns the ways in which a value breaks the rule. value is nil if the text of a known key is invalid, which
// the catalog reports. Once w is exhausted, every value breaks every rule.
func (r *rule) check(raw string, value *annotation.Value, w *work) []breach {
	if !w.spend(r.cost(raw)) {
		return []breach{{
			IDTooLong, field.ErrorTypeInvalid, r.path, "is too long to be validated by", "shorten the value",
		}}
	}
	if r.forbidden {
		return []breach{{
			idForbidden, field.ErrorTypeForbidden, r.path.Child("forbidden"), "must not be set: forbidden by",
			"remove the key",
		}}
	}
	if r.known != nil && value == nil {
		return nil
	}
	var found []breach
	add := func(id string, errorType field.ErrorType, part, message, remedy string) {
		found = append(found, breach{id, errorType, r.path.Child(part), message, remedy})
	}
	if r.min != nil && !r.min.atMost(raw, value) {
		add(idMin, field.ErrorTypeInvalid, "min", "is below the minimum of "+r.min.text+" set by", "raise the value")
	}
	if r.max != nil && !r.max.atLeast(raw, value) {
		add(idMax, field.ErrorTypeInvalid, "max", "exceeds the maximum of "+r.max.text+" set by", "lower the value")
	}
	if r.allowed != nil && !r.allows(raw, value) {
		message, remedy := "must be one of "+list(r.allowed)+", as set by", "use one of these"
		switch {
		case r.isList():
			message, remedy = "must contain only "+list(r.allowed)+", as set by", "remove the other elements"
		case len(r.allowed) == 0:
			message, remedy = "no value is allowed by", "remove the key"
		case len(r.allowed) == 1:
			message, remedy = "must be "+list(r.allowed)+", as set by", "write "+list(r.allowed)
		}
		add(idAllowed, field.ErrorTypeNotSupported, "allowed", message, remedy)
	}
	switch {
	case r.pattern == nil:
	case len(raw) > maxMatched:
		add(idPattern, field.ErrorTypeInvalid, "pattern",
			fmt.Sprintf("must match %s within %d bytes, as set by", r.pattern, maxMatched), "shorten the value")
	case !r.pattern.MatchString(raw):
		add(idPattern, field.ErrorTypeInvalid, "pattern", "must match "+r.pattern.String()+", as set by",
			"correct the value")
	}
	return found
}

// checkSet is check for an annotation that is set. An invalid rule is broken by every value.
func (r *rule) checkSet(raw string, value *annotation.Value, w *work) []breach {
	return append(r.check(raw, value, w), r.invalid...)
}

// cost returns the work of checking a value.
func (r *rule) cost(raw string) int {
	n := 1 + len(raw)*(1+len(r.allowed))
	if r.pattern != nil && len(raw) <= maxMatched {
		n += (1 + len(raw)) * r.pattern.steps
	}
	return n
}

// list lists values for a message. It limits their number and length, because the message is repeated for each wrong
// value.
func list(values []string) string {
	const (
		most    = 20
		longest = 128
	)
	if len(values) == 0 {
		return "none"
	}
	var texts []string
	for _, value := range values[:min(len(values), most)] {
		texts = append(texts, visible.Shorten(value, longest))
	}
	if more := len(values) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// allows reports whether a value is allowed. It compares parsed values of known keys, for which 60s equals 1m.
func (r *rule) allows(raw string, value *annotation.Value) bool {
	switch {
	case r.isList():
		return !slices.ContainsFunc(value.List, func(element string) bool {
			return !slices.Contains(r.allowed, element)
		})
	case r.known == nil:
		return slices.Contains(r.allowed, raw)
	}
	return slices.ContainsFunc(r.allowedValues, value.Equal)
}

func (r *rule) isList() bool { return r.known != nil && r.known.Type.Type == annotation.List }

// breaches returns the ways in which a default, of this or of another policy, breaks the policy's rules. aliases are
// other keys of the same annotation.
func (p *Policy) breaches(key string, aliases []string, value string, w *work) []breach {
	var found []breach
	for i := range p.rules {
		if r := &p.rules[i]; r.key == key || slices.Contains(aliases, r.key) {
			found = append(found, r.checkText(value, w)...)
		}
	}
	return found
}

// checkText checks a text that has not been parsed.
func (r *rule) checkText(raw string, w *work) []breach {
	var value *annotation.Value
	if r.known != nil {
		if parsed, err := r.known.Parse(raw); err == nil { // else the policy that contains it has a finding
			value = &parsed
		}
	}
	return r.checkSet(raw, value, w)
}

// finding returns the finding about a Service, with the severity of the rule's policy.
func (b breach) finding(p *Policy, r *rule) finding.Finding {
	f := finding.Finding{
		ID: b.id, Check: b.path.String() + " of " + p.Name(), Severity: severity(p.enforcement), Type: b.errorType, Message: b.message + " " + p.Name(),
		Remedy: b.remedy,
	}
	switch {
	case b.id == IDTooLong:
		// The rules of other policies are not applied either, so this must not depend on one policy's enforcement.
		f.Severity = finding.Error
	case r.message != "" && b.remedy != askAuthor:
		f.Remedy = r.message
	}
	return f
}

func severity(e v1alpha1.Enforcement) finding.Severity {
	switch e {
	case v1alpha1.EnforcementWarn:
		return finding.Warning
	case v1alpha1.EnforcementAudit:
		return finding.Audit
	default:
		return finding.Error
	}
}
