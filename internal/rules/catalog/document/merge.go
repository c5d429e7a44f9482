package document

import (
	"cmp"
	"slices"
)

// Extended returns the document with another one of the same name added: its annotations, checks and findings replace
// those of the same name, and what its head sets replaces that of the document.
func (d Document) Extended(by Document) Document {
	h := &d.Head
	h.Title, h.Controller = cmp.Or(by.Title, h.Title), cmp.Or(by.Controller, h.Controller)
	h.Version, h.Date, h.Help = cmp.Or(by.Version, h.Version), cmp.Or(by.Date, h.Date), cmp.Or(by.Help, h.Help)
	h.Prefixes, h.SharedPrefixes = union(h.Prefixes, by.Prefixes), union(h.SharedPrefixes, by.SharedPrefixes)
	h.OnServices, h.AnyType = union(h.OnServices, by.OnServices), union(h.AnyType, by.AnyType)
	h.Elsewhere, h.Reads = union(h.Elsewhere, by.Elsewhere), union(h.Reads, by.Reads)
	d.Annotations = replaced(d.Annotations, by.Annotations, func(a Annotation) string { return a.Name })
	d.Checks = replaced(d.Checks, by.Checks, func(c Check) string { return c.ID })
	d.Findings = replaced(d.Findings, by.Findings, func(f FindingDoc) string { return f.ID })
	d.Left = replaced(d.Left, by.Left, func(l Left) string { return l.Name })
	return d
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// replaced returns elements with others added, which replace those of the same name.
func replaced[T any](all, by []T, name func(T) string) []T {
	named := func(one T) func(T) bool { return func(other T) bool { return name(other) == name(one) } }
	kept := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return slices.ContainsFunc(by, named(one)) })
	return append(kept, by...)
}
