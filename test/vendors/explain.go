package vendors

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/finding"
)

// Explanation says why the verdicts of catalog and vendor differ on purpose. It is for one of two kinds of differences:
// with Finding, the catalog says that the Service is refused, and the vendor's code accepts it, because the cloud
// refuses it later; with Vendor, it is the other way around.
type Explanation struct {
	// Finding, Field and Value are regular expressions, without anchors to be set, for the id, the key or field, and the
	// value of a finding. An empty one matches anything.
	Finding string `json:"finding,omitempty"`
	Field   string `json:"field,omitempty"`
	Value   string `json:"value,omitempty"`
	// With is a regular expression, like the first three, for another finding that the Service must have as well: its id; its
	// id and its key or field, after a space; or these and the value, after a colon and a space.
	With string `json:"with,omitempty"`
	// Set has annotations that the Service must have, with regular expressions for their values.
	Set map[string]string `json:"set,omitempty"`
	// Unset has annotations that the Service must not have.
	Unset []string `json:"unset,omitempty"`
	// Vendor is a regular expression for a part of the vendor's error.
	Vendor string `json:"vendor,omitempty"`
	// Why is the reason, and Source where that is documented.
	Why    string   `json:"why"`
	Source []string `json:"source"`

	uses                                int
	finding, field, value, with, vendor *regexp.Regexp
	set                                 map[string]*regexp.Regexp
}

// Explanations are those of one vendor.
type Explanations []*Explanation

// ReadExplanations reads the explanations in a file; there are none if it does not exist.
func ReadExplanations(file string) (Explanations, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read explanations: %w", err)
	}
	var all Explanations
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	return all, all.compile()
}

func (all Explanations) compile() error {
	var problems []error
	for i, e := range all {
		if (e.Finding == "") == (e.Vendor == "") || strings.TrimSpace(e.Why) == "" || len(e.Source) == 0 {
			problems = append(problems, fmt.Errorf("explanation %d must have either finding or vendor, and why and source", i+1))
		}
		compiled := func(text string) *regexp.Regexp {
			expression, err := regexp.Compile(text)
			if err != nil {
				problems = append(problems, fmt.Errorf("explanation %d: %w", i+1, err))
			}
			return expression
		}
		e.finding, e.vendor = compiled(whole(e.Finding)), compiled(e.Vendor)
		e.field, e.value, e.with = compiled(whole(orAny(e.Field))), compiled(whole(orAny(e.Value))), compiled(whole(e.With))
		e.set = map[string]*regexp.Regexp{}
		for key, text := range e.Set {
			e.set[key] = compiled(whole(text))
		}
	}
	return errors.Join(problems...)
}

func whole(expression string) string { return "^(?s:" + expression + ")$" }

func orAny(expression string) string {
	if expression == "" {
		return ".*"
	}
	return expression
}

// ofFinding returns the explanation of a finding that the vendor's code does not share, among all those of the Service.
func (all Explanations) ofFinding(svc *corev1.Service, f finding.Finding, findings []finding.Finding) *Explanation {
	at := slices.IndexFunc(all, func(e *Explanation) bool {
		return e.Finding != "" && e.finding.MatchString(f.ID) && e.field.MatchString(f.Key()) && e.value.MatchString(f.Value) &&
			e.matches(svc, findings)
	})
	if at < 0 {
		return nil
	}
	return all[at]
}

// matches reports whether the Service has the annotations of Set, none of Unset, and the finding of With.
func (e *Explanation) matches(svc *corev1.Service, findings []finding.Finding) bool {
	if e.With != "" && !slices.ContainsFunc(findings, func(f finding.Finding) bool {
		at := f.ID + " " + f.Key()
		return slices.ContainsFunc([]string{f.ID, at, at + ": " + f.Value}, e.with.MatchString)
	}) {
		return false
	}
	for _, key := range e.Unset {
		if _, set := svc.Annotations[key]; set {
			return false
		}
	}
	for key, expression := range e.set {
		if value, set := svc.Annotations[key]; !set || !expression.MatchString(value) {
			return false
		}
	}
	return true
}

// ofError returns the explanation of a vendor's error that the catalog does not share, whatever else it finds.
func (all Explanations) ofError(svc *corev1.Service, text string, findings []finding.Finding) *Explanation {
	at := slices.IndexFunc(all, func(e *Explanation) bool {
		return e.Vendor != "" && e.vendor.MatchString(text) && e.matches(svc, findings)
	})
	if at < 0 {
		return nil
	}
	return all[at]
}

// Unused returns the explanations that explained nothing.
func (all Explanations) Unused() []string {
	var unused []string
	for _, e := range all {
		if e.uses == 0 {
			unused = append(unused, strings.Join(slices.DeleteFunc([]string{e.Finding, e.Field, e.Value, e.With, e.Vendor},
				func(text string) bool { return text == "" }), " "))
		}
	}
	return unused
}

// refused returns the findings about what the controller refuses.
func refused(findings []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool {
		return f.Outcome != string(document.Refused)
	})
}
