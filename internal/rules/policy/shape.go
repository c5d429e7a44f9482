package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/annotation"
)

// The sizes that the schema of the CRDs allows. The linter reports more; the API server accepts no more.
const (
	maxCatalogs = 32
	maxAllowed  = 64
	maxValue    = 1024
	maxPattern  = 1024
	maxMessage  = 512
)

// shape reports what is wrong with a spec regardless of annotations. The API server would stop at the first rule of a
// schema, and state no remedy, so that the schema only has what keeps policies readable: types and sizes. catalogs are
// those of a cluster policy, which may consist of nothing else.
func (c *compiler) shape(kind string, s *v1alpha1.LoadBalancerPolicySpec, catalogs []string) {
	parts := "defaults or rules"
	if kind == v1alpha1.KindClusterLoadBalancerPolicy {
		parts = "defaults, rules or catalogs"
	}
	if len(s.Defaults) == 0 && len(s.Rules) == 0 && len(catalogs) == 0 {
		c.report(idIncomplete, spec, "", "must have "+parts, "add one of them")
	}
	c.enforcement(s.Enforcement)
	c.filled(spec.Child("defaults"), s.Defaults != nil, len(s.Defaults))
	c.filled(spec.Child("rules"), s.Rules != nil, len(s.Rules))
	c.filled(spec.Child("catalogs"), catalogs != nil, len(catalogs))
	if !c.atMost(spec.Child("defaults"), "defaults", len(s.Defaults), maxItems) {
		for key, value := range s.Defaults {
			c.atMost(spec.Child("defaults").Key(key), "characters", utf8.RuneCountInString(value), maxValue)
		}
	}
	if !c.atMost(spec.Child("catalogs"), "catalogs", len(catalogs), maxCatalogs) {
		c.different(spec.Child("catalogs"), catalogs)
	}
	if c.atMost(spec.Child("rules"), "rules", len(s.Rules), maxItems) {
		return
	}
	keys := make([]string, len(s.Rules))
	for i := range s.Rules {
		keys[i] = s.Rules[i].Annotation
		c.ruleShape(spec.Child("rules").Index(i), &s.Rules[i])
	}
	c.different(spec.Child("rules"), keys)
}

// enforcement reports an unknown one, which counts as Deny.
func (c *compiler) enforcement(given v1alpha1.Enforcement) {
	known := []string{string(v1alpha1.EnforcementDeny), string(v1alpha1.EnforcementWarn), string(v1alpha1.EnforcementAudit)}
	if given == "" || slices.Contains(known, string(given)) {
		return
	}
	remedy := "correct it; until then, it counts as " + known[0]
	if nearest, near := annotation.Suggest(string(given), known); near {
		remedy = fmt.Sprintf("did you mean %q?", nearest)
	}
	c.report(idEnforcement, spec.Child("enforcement"), string(given), "must be one of "+strings.Join(known, ", "), remedy)
	c.last().Type = field.ErrorTypeNotSupported
}

func (c *compiler) ruleShape(path *field.Path, r *v1alpha1.Rule) {
	first := len(c.findings)
	if r.Min == nil && r.Max == nil && len(r.Allowed) == 0 && r.Pattern == "" && !r.Required && !r.Forbidden {
		c.report(idIncomplete, path, "", "must set at least one of min, max, allowed, pattern, required or forbidden",
			"add one, or remove the rule")
	}
	c.filled(path.Child("allowed"), r.Allowed != nil, len(r.Allowed))
	if !c.atMost(path.Child("allowed"), "values", len(r.Allowed), maxAllowed) {
		c.different(path.Child("allowed"), r.Allowed)
		for i, value := range r.Allowed {
			c.atMost(path.Child("allowed").Index(i), "characters", utf8.RuneCountInString(value), maxValue)
		}
	}
	c.atMost(path.Child("pattern"), "characters", utf8.RuneCountInString(r.Pattern), maxPattern)
	c.atMost(path.Child("message"), "characters", utf8.RuneCountInString(r.Message), maxMessage)
	c.subjects(first, path, r.Annotation)
}

// subjects names the subjects of findings about a rule from the first one on: rules and their elements may move.
func (c *compiler) subjects(first int, path *field.Path, key string) {
	for i := range c.findings[first:] {
		f := &c.findings[first+i]
		part, _, _ := strings.Cut(strings.TrimPrefix(f.Field, path.String()), "[")
		f.Subject = key + part
	}
}

// filled reports a list or map that is given, but empty.
func (c *compiler) filled(path *field.Path, given bool, n int) {
	if given && n == 0 {
		c.report(idIncomplete, path, "", "must not be empty", "remove it, or add an element")
	}
}

// atMost reports more of something than the schema allows, and whether it is more.
func (c *compiler) atMost(path *field.Path, what string, n, most int) bool {
	if n > most {
		c.report(idSize, path, "", fmt.Sprintf("must have at most %d %s; has %d", most, what, n), "shorten or split it")
	}
	return n > most
}

// different reports elements that occur before, which a list with keys must not have.
func (c *compiler) different(path *field.Path, values []string) {
	seen := map[string]int{}
	for i, value := range values {
		if at, found := seen[value]; found {
			c.report(idDuplicate, path.Index(i), value, fmt.Sprintf("duplicate of %s", path.Index(at)), "merge the two")
			c.last().Type = field.ErrorTypeDuplicate
			c.last().Subject = path.String() + " " + value
			continue
		}
		seen[value] = i
	}
}
