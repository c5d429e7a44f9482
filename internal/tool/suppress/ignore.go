package suppress

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

const (
	// mark begins the comments that ignore findings.
	mark = "quayctl:ignore"
	// prefix begins the annotations that do, before the id.
	prefix = "ignore.quaymaster.dev/"
)

// idPattern matches the ids of findings.
var idPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Annotations returns what the annotations of an object ignore. find locates a path in the source.
func Annotations(annotations map[string]string, find func(path string) manifest.Place) []report.Ignore {
	var all []report.Ignore
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if of, ok := strings.CutPrefix(key, prefix); ok {
			path := finding.FieldOf(key)
			at := find(path)
			all = append(all, report.Ignore{
				Path: path, Text: annotations[key], IDs: ids(of), Reason: strings.TrimSpace(annotations[key]),
				Line: at.Line, Column: at.Column,
				Excerpt: report.Excerpt{Text: at.Text, Mark: at.Column, Width: at.KeyWidth},
			})
		}
	}
	return all
}

// comments returns what the comments of a file ignore.
func comments(f *manifest.File) []report.Ignore {
	var all []report.Ignore
	for _, c := range f.Comments(mark) {
		of, reason, _ := strings.Cut(strings.TrimPrefix(c.Text, mark), ":")
		at := f.Line(c.Line, c.Column)
		all = append(all, report.Ignore{
			Text: c.Text, IDs: ids(of), Reason: strings.TrimSpace(reason), Line: c.Line, Column: c.Column, Of: c.Of,
			Excerpt: report.Excerpt{Text: at.Text, Mark: at.Column, Width: at.Width},
		})
	}
	return all
}

// ids returns the ids in a list with commas, or nil if one of them cannot be an id.
func ids(list string) []string {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !idPattern.MatchString(one) {
			return nil
		}
		all = append(all, one)
	}
	return all
}
