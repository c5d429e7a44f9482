package finding

import (
	"cmp"
	"slices"
	"strings"
)

// failure is a check that fails on a value. Where the value is in the object does not matter, nor do words.
type failure struct{ catalog, check, subject, value, listeners string }

func (f Finding) failure() failure {
	return failure{f.Catalog, f.Check, cmp.Or(f.Subject, f.Field), f.Value, strings.Join(f.Listeners, ",")}
}

// Ratchet lowers errors of an update that are old to warnings, and sorts and merges the result. old holds the findings
// of the same checks on the object before the update. An error is old only if the same check failed on the same value
// with severity error. Each finding names at most one listener, so that listeners are compared separately.
func Ratchet(old, current []Finding) []Finding { return Merge(ratchet(old, current)) }

func ratchet(old, current []Finding) []Finding {
	failed := make(map[failure]bool, len(old))
	for _, f := range Errors(old) {
		failed[f.failure()] = f.Check != ""
	}
	ratcheted := slices.Clone(current)
	for i, f := range ratcheted {
		if f.Severity == Error && failed[f.failure()] {
			ratcheted[i].Severity, ratcheted[i].Old = Warning, true
		}
	}
	return ratcheted
}

// Introduces reports whether the current findings contain an error that is not old.
func Introduces(old, current []Finding) bool { return Deny(ratchet(old, current)) }

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
	for _, f := range sorted {
		if n := len(merged); n > 0 && sameProblem(merged[n-1], f) {
			merged[n-1].Listeners = append(merged[n-1].Listeners, f.Listeners...)
			continue
		}
		f.Listeners = slices.Clone(f.Listeners) // to append to
		merged = append(merged, f)
	}
	return merged
}

func sameProblem(a, b Finding) bool {
	return a.ID == b.ID && a.Field == b.Field && a.Value == b.Value && a.Message == b.Message &&
		a.Severity == b.Severity && len(a.Listeners) > 0 && len(b.Listeners) > 0
}
