package vendors

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// Comparison compares the findings of a catalog with the verdicts of a judge.
type Comparison struct {
	set          catalog.Set
	explanations Explanations
}

// NewComparison returns the comparison with a catalog.
func NewComparison(l *library.Library, name string, explanations Explanations) (*Comparison, error) {
	set, err := catalog.NewSet(catalog.Options{Catalogs: []string{name}, Library: l})
	if err != nil {
		return nil, fmt.Errorf("select the catalog: %w", err)
	}
	return &Comparison{set: set, explanations: explanations}, explanations.compile()
}

// result is what a comparison finds.
type result int

const (
	agree result = iota
	// explained: they differ, and an explanation says why.
	explained
	// skipped: neither the vendor's code nor the catalog looks at the Service.
	skipped
	different
)

// outcome is the result for one Service.
type outcome struct {
	result result
	svc    *corev1.Service
	// findings are those of the catalog that matter for the result.
	findings []finding.Finding
	verdict  Verdict
	// explanations are those that the result needed.
	explanations []*Explanation
}

// compare compares the findings in a Service with a verdict. The catalog knows three outcomes of a mistake: only of what
// is refused must the vendor's code report an error, and of nothing else. If the code warns, the catalog must find
// something.
func (c *Comparison) compare(svc *corev1.Service, v Verdict) outcome {
	findings := c.set.Parse(svc).Validate()
	o := outcome{svc: svc, findings: refused(findings), verdict: v}
	switch {
	case v.Error != "" && len(o.findings) > 0:
		return o
	case v.Error != "" || v.Warning != "" && len(findings) == 0:
		o.findings = findings
		if e := c.explanations.ofError(svc, v.problem(), findings); e != nil {
			o.result, o.explanations = explained, []*Explanation{e}
			return o
		}
		o.result = different
		return o
	}
	var unexplained []finding.Finding
	for _, f := range o.findings {
		if e := c.explanations.ofFinding(svc, f, findings); e != nil {
			o.explanations = append(o.explanations, e)
			continue
		}
		unexplained = append(unexplained, f)
	}
	switch {
	case len(unexplained) > 0:
		o.result, o.findings = different, unexplained
	case v.Skip != "":
		o.result = skipped
	case len(o.findings) > 0:
		o.result = explained
	}
	return o
}

// aboutVendor reports whether the difference is an error or warning of the vendor's code, and not a finding.
func (o outcome) aboutVendor() bool {
	return o.verdict.Error != "" || o.verdict.Warning != "" && len(o.findings) == 0
}

var details = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9]+`)

// signature is equal for differences that probably have the same cause.
func (o outcome) signature() string {
	if o.aboutVendor() {
		return "error " + o.withoutValues(o.verdict.problem())
	}
	return strings.Join(slices.Sorted(slices.Values(o.causes())), ", ")
}

// withoutValues returns an error without what comes from the Service, so that the same error about another value is equal.
func (o outcome) withoutValues(text string) string {
	var values []string
	for _, value := range o.svc.Annotations {
		values = append(values, value, strings.TrimSpace(value), strings.ToLower(value))
		values = append(values, strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;= ", r) })...)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, value := range values {
		if value != "" {
			text = replaceWord(text, value)
		}
	}
	return details.ReplaceAllString(text, "_")
}

// replaceWord replaces a value where it is not a part of a longer word.
func replaceWord(text, value string) string {
	expression := regexp.MustCompile(`(^|[^a-zA-Z0-9])` + regexp.QuoteMeta(value) + `($|[^a-zA-Z0-9])`)
	return expression.ReplaceAllString(text, "${1}_${2}")
}

// causes names the findings.
func (o outcome) causes() []string {
	var causes []string
	for _, f := range o.findings {
		causes = append(causes, f.ID+" "+f.Field)
	}
	return causes
}

// sameKind reports whether another difference, of a smaller Service, has the same cause.
func (o outcome) sameKind(smaller outcome) bool {
	if smaller.result != different || o.aboutVendor() != smaller.aboutVendor() || (o.verdict.Skip == "") != (smaller.verdict.Skip == "") {
		return false
	}
	if o.aboutVendor() {
		return o.signature() == smaller.signature()
	}
	return !slices.ContainsFunc(smaller.causes(), func(cause string) bool { return !slices.Contains(o.causes(), cause) })
}
