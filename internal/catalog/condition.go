package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// holds reports whether a condition holds. known is false where it depends on an invalid or doubtful value.
func (v *View) holds(c Condition, sc scope) (holds, known bool) {
	if c.Field != "" {
		values := sc.field(v.Service, c.Field)
		return (c.Set == nil || *c.Set == (len(values) > 0)) && c.HoldsFor(values), true
	}
	if c.Set != nil {
		// Whether there is a value needs no default, and is known of an invalid one, too.
		set, known := v.isSet(c.Key, sc)
		if *c.Set != set {
			return false, set || known
		}
		if !c.AsksValues() {
			return set || known, set || known
		}
	}
	values, known := v.values(c.Key, sc)
	if known {
		return c.HoldsFor(values), true
	}
	// One of several ports may be enough to know.
	holds = c.Is != nil && c.Not == nil && c.Only == nil && c.HoldsFor(values)
	return holds, holds
}

// AsksValues reports whether the condition is about more than whether there is a value.
func (c Condition) AsksValues() bool { return c.Is != nil || c.Not != nil || c.Only != nil }

// HoldsFor reports whether values are what the condition asks for, whether or not they are set.
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
	return !slices.ContainsFunc(conditions, func(c Condition) bool { holds, known := v.holds(c, sc); return !holds || !known })
}

// any reports whether a condition is known to hold.
func (v *View) any(conditions []Condition, sc scope) bool {
	return slices.ContainsFunc(conditions, func(c Condition) bool { holds, known := v.holds(c, sc); return holds && known })
}

// none reports whether every condition is known not to hold.
func (v *View) none(conditions []Condition, sc scope) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool { holds, known := v.holds(c, sc); return holds || !known })
}

// Requirement texts: "requires X", or "must not be combined with X".

// Demand says what conditions of which one has to hold require.
func Demand(conditions []Condition) string { return demand(conditions, nil) }

func demand(conditions []Condition, b bindings) string {
	if c := conditions[0]; len(conditions) == 1 && c.Set != nil && !*c.Set && !c.AsksValues() {
		return "must not be combined with " + b.expand(c.Key) + c.Field
	}
	return "requires " + Describe(conditions, b)
}

// Describe describes conditions of which one has to hold, such as "X set to a or b, or no Y".
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

// Text says what the requirement demands, without a subject.
func (q Requirement) Text() string { return q.text(nil) }

func (q Requirement) text(b bindings) string {
	if q.Message != "" {
		return "must " + q.Message
	}
	return demand(q.Any, b)
}

// remedy is the requirement's own, or one that fits what it demands.
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

// Text says what a check without a function demands.
func (c *Check) Text() string { return Requirement{Any: c.Any, Message: c.Message}.Text() }
