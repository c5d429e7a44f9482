package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// holds tells whether a condition does. known is false where it depends on a value that is wrong.
func (r *reading) holds(c Condition, b bindings) (holds, known bool) {
	values, set, known := r.ask(c, b)
	if c.Set != nil && *c.Set != set {
		return false, true
	}
	if !known {
		// That it is there can be told of a wrong value, too.
		return !c.AsksValues(), !c.AsksValues()
	}
	return c.HoldsFor(values), true
}

// AsksValues tells whether the condition is about more than whether there is a value.
func (c Condition) AsksValues() bool { return c.Is != nil || c.Not != nil || c.Only != nil }

// HoldsFor tells whether values are what the condition asks for, whether or not they are set.
func (c Condition) HoldsFor(values []string) bool {
	in := func(words []string) func(string) bool {
		return func(v string) bool { return slices.Contains(words, v) }
	}
	return (c.Is == nil || slices.ContainsFunc(values, in(c.Is))) &&
		(c.Not == nil || !slices.ContainsFunc(values, in(c.Not))) &&
		(c.Only == nil || !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(c.Only, v) }))
}

func (r *reading) ask(c Condition, b bindings) (values []string, set, known bool) {
	if c.Field != "" {
		values = fields[c.Field](r.svc)
		return values, len(values) > 0, true
	}
	return r.values(c.Key, b)
}

// all tells whether every condition is known to hold.
func (r *reading) all(conditions []Condition, b bindings) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		holds, known := r.holds(c, b)
		return !holds || !known
	})
}

// none tells whether every condition is known not to hold.
func (r *reading) none(conditions []Condition, b bindings) bool {
	return !slices.ContainsFunc(conditions, func(c Condition) bool {
		holds, known := r.holds(c, b)
		return holds || !known
	})
}

// Demand completes "must …" for conditions of which one has to hold.
func Demand(conditions []Condition) string { return demand(conditions, nil) }

// demand completes "must …" for conditions of which one has to hold.
func demand(conditions []Condition, b bindings) string {
	var texts []string
	for _, c := range conditions {
		texts = append(texts, c.words(b))
	}
	return "stand beside " + strings.Join(texts, " or ")
}

// Must completes "must …" for the requirement.
func (q Requirement) Must() string { return q.must(nil) }

func (q Requirement) must(b bindings) string {
	if q.Message != "" {
		return q.Message
	}
	return demand(q.Any, b)
}

// Must completes "must …" for a rule without check.
func (r *Rule) Must() string { return Requirement{Any: r.Any, Message: r.Message}.Must() }

func (c Condition) words(b bindings) string {
	what := b.expand(c.Key) + c.Field
	switch {
	case c.Is != nil:
		return fmt.Sprintf("%s %s", what, strings.Join(c.Is, " or "))
	case c.Not != nil:
		return fmt.Sprintf("%s other than %s", what, strings.Join(c.Not, " and "))
	case c.Only != nil:
		return fmt.Sprintf("%s of %s alone", what, strings.Join(c.Only, " and "))
	case c.Set != nil && !*c.Set:
		return "no " + what
	}
	return what
}
