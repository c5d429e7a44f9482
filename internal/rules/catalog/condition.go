package catalog

import (
	"slices"

	"quaymaster.dev/internal/rules/catalog/document"
)

// holds reports whether a condition holds. known is false if that depends on an invalid or uncertain value.
func (v *View) holds(c document.Condition, sc scope) (holds, known bool) {
	if c.Field != "" {
		var buffer [8]string // so that few values cost no allocation
		values, known := v.field(buffer[:0], sc, c.Field)
		if !known {
			return false, false
		}
		return (c.Set == nil || *c.Set == (len(values) > 0)) && c.Expand(sc.bindings).HoldsFor(values), true
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

// all reports whether every condition is known to hold.
func (v *View) all(conditions []document.Condition, sc scope) bool {
	return !slices.ContainsFunc(conditions, func(c document.Condition) bool {
		holds, known := v.holds(c, sc)
		return !holds || !known
	})
}

// any reports whether at least one condition is known to hold.
func (v *View) any(conditions []document.Condition, sc scope) bool {
	return slices.ContainsFunc(conditions, func(c document.Condition) bool {
		holds, known := v.holds(c, sc)
		return holds && known
	})
}

// none reports whether every condition is known not to hold.
func (v *View) none(conditions []document.Condition, sc scope) bool {
	return !slices.ContainsFunc(conditions, func(c document.Condition) bool {
		holds, known := v.holds(c, sc)
		return holds || !known
	})
}
