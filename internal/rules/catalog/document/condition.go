package document

import (
	"fmt"
	"slices"
	"strings"
)

// ComparesValues reports whether the condition depends on the value, not only on whether there is one.
func (c Condition) ComparesValues() bool { return c.Is != nil || c.Not != nil || c.Only != nil }

// Expand returns the condition with the values of placeholders in the words of Is.
func (c Condition) Expand(b Bindings) Condition {
	if len(b) > 0 && c.Is != nil {
		words := make([]string, 0, len(c.Is))
		for _, word := range c.Is {
			words = append(words, b.Expand(word))
		}
		c.Is = words
	}
	return c
}

// HoldsFor reports whether values satisfy the condition, apart from Set.
func (c Condition) HoldsFor(values []string) bool {
	in := func(words []string) func(string) bool {
		return func(v string) bool { return slices.Contains(words, v) }
	}
	return (c.Is == nil || slices.ContainsFunc(values, in(c.Is))) &&
		(c.Not == nil || !slices.ContainsFunc(values, in(c.Not))) &&
		(c.Only == nil || !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(c.Only, v) }))
}

// RequirementText describes the requirement that one of the conditions holds: "requires X", or "must not be combined
// with X".
func RequirementText(conditions []Condition, b Bindings) string {
	if c := conditions[0]; len(conditions) == 1 && c.Set != nil && !*c.Set && !c.ComparesValues() {
		return "must not be combined with " + b.Expand(c.Key) + c.Field
	}
	return "requires " + Describe(conditions, b)
}

// Describe describes conditions of which one must hold, such as "X set to a or b, or no Y".
func Describe(conditions []Condition, b Bindings) string {
	var texts []string
	for _, c := range conditions {
		texts = append(texts, c.describe(b))
	}
	return strings.Join(texts, ", or ")
}

func (c Condition) describe(b Bindings) string {
	what := b.Expand(c.Key) + c.Field
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
func (q Requirement) Text(b Bindings) string {
	if q.Message != "" {
		return "must " + q.Message
	}
	return RequirementText(q.Any, b)
}

// RemedyFor returns the requirement's own remedy, or one generated from its conditions.
func (q Requirement) RemedyFor(b Bindings) string {
	if q.Remedy != "" {
		return q.Remedy
	}
	if strings.HasPrefix(q.Text(b), "must not be combined") {
		return "remove one of the two"
	}
	var keys []string
	for _, c := range q.Any {
		if c.Set != nil && !*c.Set {
			continue
		}
		keys = append(keys, b.Expand(c.Key)+c.Field)
	}
	if len(keys) == 0 {
		return "remove one of the two"
	}
	return "set " + strings.Join(slices.Compact(keys), " or ") + " accordingly, or remove this key"
}

// Text describes what a check without a function requires.
func (c *Check) Text() string { return Requirement{Any: c.Any, Message: c.Message}.Text(nil) }
