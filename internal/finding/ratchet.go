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

// Ratchet lowers errors that the object's old version already had to warnings, and sorts and merges the result. Each
// error passed in names at most one listener, so that listeners are compared separately.
func Ratchet(old, current []Finding) []Finding {
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
	return Merge(ratcheted)
}

// Introduced returns the errors among the current findings that the old version did not have.
func Introduced(old, current []Finding) []Finding { return Errors(Ratchet(old, current)) }

// Merge sorts findings by field and merges those that differ only in their listeners, or in the catalog that they come from.
func Merge(findings []Finding) []Finding { return mergeCatalogs(mergeListeners(findings)) }

// mergeCatalogs makes one finding of what several catalogs say alike of one value. It has the id and the remedy of the first.
func mergeCatalogs(sorted []Finding) []Finding {
	var merged []Finding
	for _, f := range sorted {
		at := len(merged) - 1
		for at >= 0 && merged[at].Field == f.Field && !merged[at].sameOfOtherCatalog(f) {
			at--
		}
		if at < 0 || merged[at].Field != f.Field {
			merged = append(merged, f)
			continue
		}
		merged[at].AlsoCatalogs = append(slices.Clip(merged[at].AlsoCatalogs), f.Catalog)
	}
	return merged
}

func (f Finding) sameOfOtherCatalog(other Finding) bool {
	// Catalogs have examples of their own.
	const example = "for example "
	sameRemedy := f.Remedy == other.Remedy || strings.HasPrefix(f.Remedy, example) && strings.HasPrefix(other.Remedy, example)
	return sameRemedy && f.Catalog != "" && other.Catalog != "" && f.Catalog != other.Catalog && f.Value == other.Value && f.Message == other.Message &&
		f.Severity == other.Severity && slices.Equal(f.Listeners, other.Listeners)
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
