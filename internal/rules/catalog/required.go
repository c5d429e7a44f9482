package catalog

import (
	"maps"
	"slices"

	"quaymaster.dev/internal/rules/catalog/document"
)

// Offer returns the value that an annotation could get; offered is false if there is none.
type Offer func(key string) (value string, offered bool)

// Required returns the offered annotations that an offered one requires, directly or through others: those that its
// requirements name, with a value that satisfies them, and those that a function compares it with. They belong together,
// such as the protocol https and its certificate.
func (p *Parsed) Required(key string, offer Offer) []string {
	all := []string{key}
	for i := 0; i < len(all); i++ {
		for _, v := range p.views {
			if !v.owned {
				continue
			}
			for _, other := range v.required(all[i], offer) {
				if _, offered := offer(other); offered && !slices.Contains(all, other) {
					all = append(all, other)
				}
			}
		}
	}
	return all[1:]
}

// required returns what one annotation requires directly.
func (v *View) required(key string, offer Offer) []string {
	e, b, found := v.Find(key)
	if !found {
		return nil
	}
	e = v.variantOf(e)
	raw, _ := offer(key)
	value, err := e.Parse(raw)
	if err != nil {
		return nil
	}
	var keys []string
	for _, q := range e.Requirements {
		if q.Concerns(value) {
			keys = append(keys, v.satisfying(q.Any, b, offer)...)
		}
	}
	for _, c := range e.Checks {
		keys = append(keys, b.Expand(c.With["key"]))
	}
	for _, c := range v.Checks {
		mentions := func(one document.Condition) bool { return one.Key == e.Name }
		if slices.ContainsFunc(c.If, mentions) {
			keys = append(keys, v.satisfying(c.Any, b, offer)...)
		}
		if c.Call != nil {
			if compared := slices.Sorted(maps.Values(c.Call.With)); slices.Contains(compared, e.Name) {
				keys = append(keys, compared...)
			}
		}
	}
	return keys
}

// satisfying returns the first annotation that would satisfy one of the conditions.
func (v *View) satisfying(conditions []document.Condition, b document.Bindings, offer Offer) []string {
	for _, c := range conditions {
		key := b.Expand(c.Key)
		raw, offered := offer(key)
		e, _, found := v.Find(key)
		if !offered || !found || c.Set != nil && !*c.Set {
			continue
		}
		if value, err := v.variantOf(e).Parse(raw); err == nil && c.HoldsFor(value.List) {
			return []string{key}
		}
	}
	return nil
}
