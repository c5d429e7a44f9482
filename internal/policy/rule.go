package policy

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// The ids of what a Service may break. Docs, metrics and users refer to them: they must not change.
const (
	idMin       = "policy-min"
	idMax       = "policy-max"
	idAllowed   = "policy-allowed"
	idPattern   = "policy-pattern"
	idRequired  = "policy-required"
	idForbidden = "policy-forbidden"
)

// rule limits one annotation.
type rule struct {
	// path is where the rule stands in its policy.
	path *field.Path
	// key is the annotation; descriptor is nil for one that is not the DLB's.
	key        string
	descriptor *annotation.Descriptor
	min, max   *bound
	allowed    []string
	// allowedValues are the same as values, for keys with a descriptor, since a value can be written in several ways.
	allowedValues       []annotation.Value
	pattern             *regexp.Regexp
	required, forbidden bool
	// message is the author's own remedy.
	message string
}

// breach is one way in which a value breaks a rule.
type breach struct {
	id        string
	errorType field.ErrorType
	// path is of the part of the rule.
	path *field.Path
	// must says what must hold, after "must"; remedy what to do.
	must, remedy string
}

// judge finds what is wrong with a value that is there. value is not valid where the text cannot be read, which is none of
// the rule's business for keys with a descriptor.
func (r *rule) judge(raw string, value annotation.Value) []breach {
	if r.forbidden {
		return []breach{{idForbidden, field.ErrorTypeForbidden, r.path.Child("forbidden"), "not be set, as forbidden", "remove the key"}}
	}
	if r.descriptor != nil && !value.IsValid() {
		return nil
	}
	var found []breach
	if r.min != nil && !r.min.atMost(raw, value) {
		found = append(found, breach{idMin, field.ErrorTypeInvalid, r.path.Child("min"), "be " + r.min.kind() + "at least " + r.min.text, "raise the value"})
	}
	if r.max != nil && !r.max.atLeast(raw, value) {
		found = append(found, breach{idMax, field.ErrorTypeInvalid, r.path.Child("max"), "be " + r.max.kind() + "at most " + r.max.text, "lower the value"})
	}
	if r.allowed != nil && !r.allows(raw, value) {
		must, remedy := "be one of ", "write one of these"
		if len(r.allowed) == 1 {
			must, remedy = "be ", "write "+some(r.allowed)
		}
		if isList(value) {
			must, remedy = "have no other elements than ", "remove the others"
		}
		found = append(found, breach{idAllowed, field.ErrorTypeNotSupported, r.path.Child("allowed"), must + some(r.allowed), remedy})
	}
	switch {
	case r.pattern == nil:
	case len(raw) > longestMatched:
		must := fmt.Sprintf("match %s within %d bytes", r.pattern, longestMatched)
		found = append(found, breach{idPattern, field.ErrorTypeInvalid, r.path.Child("pattern"), must, "shorten the value"})
	case !r.pattern.MatchString(raw):
		found = append(found, breach{idPattern, field.ErrorTypeInvalid, r.path.Child("pattern"), "match " + r.pattern.String(), "write a value that matches"})
	}
	return found
}

// some are values as a message lists them: it is for people, and goes to them once for each value that is wrong.
func some(values []string) string {
	const (
		most    = 20
		longest = 128
	)
	if len(values) == 0 {
		return "none"
	}
	var texts []string
	for _, value := range values[:min(len(values), most)] {
		texts = append(texts, finding.Shorten(value, longest))
	}
	if more := len(values) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// allows compares values rather than texts where it can: 60s is 1m.
func (r *rule) allows(raw string, value annotation.Value) bool {
	if isList(value) {
		for i := range value.Len() {
			if !slices.Contains(r.allowed, value.Index(i).String()) {
				return false
			}
		}
		return true
	}
	if r.descriptor == nil {
		return slices.Contains(r.allowed, raw)
	}
	return slices.ContainsFunc(r.allowedValues, func(allowed annotation.Value) bool {
		return reflect.DeepEqual(allowed.Interface(), value.Interface())
	})
}

func isList(value annotation.Value) bool { return value.IsValid() && value.Kind() == reflect.Slice }

// breaches are the ways in which a value that stands in a policy, this or another, breaks the policy's rules.
func (p *Policy) breaches(key, value string) []breach {
	var found []breach
	for i := range p.rules {
		if p.rules[i].key == key {
			found = append(found, p.rules[i].judgeText(value)...)
		}
	}
	return found
}

// judgeText is judge for a text that has not been read.
func (r *rule) judgeText(raw string) []breach {
	var value annotation.Value
	if r.descriptor != nil {
		value, _ = r.descriptor.Parse(raw) // a malformed one is reported where it stands
	}
	return r.judge(raw, value)
}

// finding blames a Service, with the severity of the rule's policy.
func (b breach) finding(p *Policy, r *rule) finding.Finding {
	f := finding.Finding{
		ID: b.id, Severity: severity(p.enforcement), Type: b.errorType, Message: "must " + b.must + " by " + p.Name(), Remedy: b.remedy,
	}
	if r.message != "" {
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
