package finding

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// identity identifies a problem across two versions of an object: an update is denied only for problems that it
// introduces.
type identity struct{ id, field, value, listener string }

// index matches list indexes, which are dropped from paths because elements may move without changing.
var index = regexp.MustCompile(`\[\d+\]`)

func (f Finding) identities() []identity {
	base := identity{id: f.ID, field: f.Field, value: f.Value}
	if strings.HasPrefix(f.Field, "spec.") {
		base.field = index.ReplaceAllString(f.Field, "[]")
	}
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

// Ratchet lowers errors that the object's old version already had to warnings, and sorts and merges the result. Each
// error passed in names at most one listener, so that listeners are compared separately.
func Ratchet(old, current []Finding) []Finding { return Merge(ratchet(old, current)) }

func ratchet(old, current []Finding) []Finding {
	known := map[identity]bool{}
	for _, f := range old {
		for _, id := range f.identities() {
			known[id] = true
		}
	}
	ratcheted := slices.Clone(current)
	for i, f := range ratcheted {
		if f.Severity != Error {
			continue
		}
		if !slices.ContainsFunc(f.identities(), func(id identity) bool { return !known[id] }) {
			ratcheted[i].Severity = Warning
			ratcheted[i].Old = true
		}
	}
	return ratcheted
}

// Introduces reports whether the current findings contain an error that the old version did not have.
func Introduces(old, current []Finding) bool {
	return slices.ContainsFunc(ratchet(old, current), func(f Finding) bool { return f.Severity == Error })
}

// Merge sorts findings by field and merges those that differ only in their listeners, or in the catalog that they come
// from.
func Merge(findings []Finding) []Finding { return mergeCatalogs(mergeListeners(findings)) }

// problem is what findings of several catalogs have in common if they say the same.
type problem struct {
	field, value, message, remedy, listeners string
	severity                                 Severity
}

// mergeCatalogs merges equal findings of several catalogs about one value. The result has the id and the remedy of the
// first.
func mergeCatalogs(sorted []Finding) []Finding {
	if !slices.ContainsFunc(sorted, func(f Finding) bool { return f.Catalog != sorted[0].Catalog }) {
		return sorted
	}
	var merged []Finding
	first := map[problem]int{}
	for _, f := range sorted {
		key := problem{f.Field, f.Value, f.Message, f.Remedy, strings.Join(f.Listeners, ","), f.Severity}
		if strings.HasPrefix(f.Remedy, "for example ") {
			key.remedy = "" // catalogs have examples of their own
		}
		at, found := first[key]
		switch {
		case f.Catalog == "":
			merged = append(merged, f)
		case !found:
			first[key] = len(merged)
			merged = append(merged, f)
		case f.Catalog != merged[at].Catalog && !slices.Contains(merged[at].AlsoCatalogs, f.Catalog):
			merged[at].AlsoCatalogs = append(slices.Clip(merged[at].AlsoCatalogs), f.Catalog)
		}
	}
	return merged
}

func mergeListeners(findings []Finding) []Finding {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Severity, b.Severity))
	})
	var merged []Finding
	owned := false // whether the last finding's listeners are a copy that may be appended to: a Service may have thousands
	for _, f := range sorted {
		n := len(merged)
		if n == 0 || !sameProblem(merged[n-1], f) {
			merged, owned = append(merged, f), false
			continue
		}
		last := &merged[n-1]
		if !owned {
			last.Listeners, owned = slices.Clone(last.Listeners), true
		}
		last.Listeners = append(last.Listeners, f.Listeners...)
	}
	return merged
}

func sameProblem(a, b Finding) bool {
	return a.ID == b.ID && a.Field == b.Field && a.Value == b.Value && a.Message == b.Message &&
		a.Severity == b.Severity && len(a.Listeners) > 0 && len(b.Listeners) > 0
}
