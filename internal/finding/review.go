package finding

import (
	"cmp"
	"regexp"
	"slices"
)

// identity tells whether two findings are the same problem: an update is refused only for what it introduces.
type identity struct{ id, field, value, listener string }

// index is dropped from paths, because a list's elements may move without changing.
var index = regexp.MustCompile(`\[\d+\]`)

func (f Finding) identities() []identity {
	base := identity{id: f.ID, field: index.ReplaceAllString(f.Field, "[]"), value: f.Value}
	if len(f.Listeners) == 0 {
		return []identity{base}
	}
	all := make([]identity, len(f.Listeners))
	for i, listener := range f.Listeners {
		all[i] = base
		all[i].listener = listener
	}
	return all
}

// Ratchet lowers the errors of an object that its old version had, too, to warnings, and sorts and merges the result.
// Errors name at most one listener each when they come in, so that each is judged alone.
func Ratchet(old, current []Finding) []Finding {
	known := map[identity]bool{}
	for _, f := range old {
		for _, id := range f.identities() {
			known[id] = true
		}
	}
	judged := slices.Clone(current)
	for i, f := range judged {
		if f.Severity != Error {
			continue
		}
		if !slices.ContainsFunc(f.identities(), func(id identity) bool { return !known[id] }) {
			judged[i].Severity = Warning
			judged[i].Old = true
		}
	}
	return Merge(judged)
}

// Introduced are the errors among the current findings that the old ones do not have.
func Introduced(old, current []Finding) []Finding { return Errors(Ratchet(old, current)) }

// Merge sorts findings by field and makes one of those that differ by their listeners alone.
func Merge(findings []Finding) []Finding {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Severity, b.Severity))
	})
	var merged []Finding
	own := false // whether the last one's listeners are ours to append to: a Service may have thousands
	for _, f := range sorted {
		n := len(merged)
		if n == 0 || !sameProblem(merged[n-1], f) {
			merged, own = append(merged, f), false
			continue
		}
		last := &merged[n-1]
		if !own {
			last.Listeners, own = slices.Clone(last.Listeners), true
		}
		last.Listeners = append(last.Listeners, f.Listeners...)
	}
	return merged
}

func sameProblem(a, b Finding) bool {
	return a.ID == b.ID && a.Field == b.Field && a.Value == b.Value && a.Message == b.Message &&
		a.Severity == b.Severity && len(a.Listeners) > 0 && len(b.Listeners) > 0
}

// Of says of findings which catalog's they are, on a copy.
func Of(catalog string, findings []Finding) []Finding {
	named := slices.Clone(findings)
	for i := range named {
		named[i].Catalog = catalog
	}
	return named
}
