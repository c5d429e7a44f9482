package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// holds reports whether a condition holds. known is false if that depends on an invalid or uncertain value.
func (v *View) holds(c Condition, sc scope) (holds, known bool) {
	if c.Field != "" {
		var buffer [8]string // so that few values cost no allocation
		values := sc.field(buffer[:0], v.Service, c.Field)
		return (c.Set == nil || *c.Set == (len(values) > 0)) && c.HoldsFor(values), true
	}
	if c.Set != nil {
		// Defaults do not matter here, and an invalid value counts as set.
		set, known := v.isSet(c.Key, sc)
		if *c.Set != set {
			return false, set || known
		}
		if !c.ComparesValues() {
			return set || known, set || known
		}
	}
	values, known := v.values(c.Key, sc)
	if known {
		return c.HoldsFor(values), true
	}
	// The known values of some ports may already satisfy the condition.
	holds = c.Is != nil && c.Not == nil && c.Only == nil && c.HoldsFor(values)
	return holds, holds
}

// ComparesValues reports whether the condition depends on the value, not only on whether there is one.
func (c Condition) ComparesValues() bool { return c.Is != nil || c.Not != nil || c.Only != nil }

// HoldsFor reports whether values satisfy the condition, apart from Set.
func (c Condition) HoldsFor(values []string) bool {
	in := func(words []string) func(string) bool {
		return func(v string) bool { return slices.Contains(words, v) }
	}
	return (c.Is == nil || slices.ContainsFunc(values, in(c.Is))) &&
		(c.Not == nil || !slices.ContainsFunc(values, in(c.Not))) &&
		(c.Only == nil || !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(c.Only, v) }))
}

// all reports whether every condition is known to hold.
func (v *View) all(conditions []Condition, sc scope) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		holds, known := v.holds(c, sc)
		return !holds || !known
	})
}

// any reports whether at least one condition is known to hold.
func (v *View) any(conditions []Condition, sc scope) bool {
	return slices.ContainsFunc(conditions, func(c Condition) bool {
		holds, known := v.holds(c, sc)
		return holds && known
	})
}

// none reports whether every condition is known not to hold.
func (v *View) none(conditions []Condition, sc scope) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		holds, known := v.holds(c, sc)
		return holds || !known
	})
}

// RequirementText describes the requirement that one of the conditions holds: "requires X", or "must not be combined
// with X".
func RequirementText(conditions []Condition) string { return requirementText(conditions, nil) }

func requirementText(conditions []Condition, b bindings) string {
	if c := conditions[0]; len(conditions) == 1 && c.Set != nil && !*c.Set && !c.ComparesValues() {
		return "must not be combined with " + b.expand(c.Key) + c.Field
	}
	return "requires " + Describe(conditions, b)
}

// Describe describes conditions of which one must hold, such as "X set to a or b, or no Y".
func Describe(conditions []Condition, b map[string]string) string {
	var texts []string
	for _, c := range conditions {
		texts = append(texts, c.describe(b))
	}
	return strings.Join(texts, ", or ")
}

func (c Condition) describe(b bindings) string {
	what := b.expand(c.Key) + c.Field
	switch {
	case c.Is != nil:
		return fmt.Sprintf("%s set to %s", what, strings.Join(c.Is, " or "))
	case c.Not != nil:
		return fmt.Sprintf("%s set to anything but %s", what, strings.Join(c.Not, " or "))
	case c.Only != nil:
		return fmt.Sprintf("%s set to nothing but %s", what, strings.Join(c.Only, " or "))
	case c.Set != nil && !*c.Set:
		return "no " + what
	}
	return what
}

// Text describes the requirement, without a subject.
func (q Requirement) Text() string { return q.text(nil) }

func (q Requirement) text(b bindings) string {
	if q.Message != "" {
		return "must " + q.Message
	}
	return requirementText(q.Any, b)
}

// remedy returns the requirement's own remedy, or one generated from its conditions.
func (q Requirement) remedy(b bindings) string {
	if q.Remedy != "" {
		return q.Remedy
	}
	if strings.HasPrefix(q.text(b), "must not be combined") {
		return "remove one of the two"
	}
	var keys []string
	for _, c := range q.Any {
		if c.Set != nil && !*c.Set {
			continue
		}
		keys = append(keys, b.expand(c.Key)+c.Field)
	}
	if len(keys) == 0 {
		return "remove one of the two"
	}
	return "set " + strings.Join(slices.Compact(keys), " or ") + " accordingly, or remove this key"
}

// Text describes what a check without a function requires.
func (c *Check) Text() string { return Requirement{Any: c.Any, Message: c.Message}.Text() }
