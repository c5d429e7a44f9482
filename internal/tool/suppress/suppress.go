// Package suppress separates the findings that users have accepted from those that count: because of comments
// and annotations in manifests, of a config file, or of a baseline. Admission knows none of these.
package suppress

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

const (
	idInvalid = "ignore-invalid"
	idUnused  = "ignore-unused"
)

// Rule ignores findings.
type Rule struct {
	// Paths are patterns of files, or names of folders for everything in them, relative to the folder of the config file. * stands
	// for anything in one name, and ** for any number of folders. Without paths, the rule applies everywhere.
	Paths []string `json:"paths,omitempty"`
	// IDs are those of the findings.
	IDs []string `json:"ids"`
	// Reason says why they are ignored.
	Reason string `json:"reason"`
}

// Options are what users have decided.
type Options struct {
	// Severities are those of findings by their id, in place of their own.
	Severities map[string]finding.Severity
	Rules      []Rule
	// Folder is what the paths of the rules are relative to.
	Folder string
}

// Apply sets the severities of findings, and moves those that do not count from Findings to Suppressed. files are the ones
// whose comments are followed. Comments and annotations without a reason, and those that ignore nothing, become findings.
func Apply(results []report.Result, files []manifest.File, o Options) {
	for i := range files {
		for _, ignore := range comments(&files[i]) {
			if at := nearest(results, files[i].Name, ignore.Of); at >= 0 {
				results[at].Ignores = append(results[at].Ignores, ignore)
			}
		}
	}
	for i := range results {
		r := &results[i]
		wrong := ignored(r)
		r.Findings = append(r.Findings, wrong...)
		report.Sort(r.Findings)
		for k, f := range r.Findings {
			r.Findings[k].Severity = cmp.Or(o.Severities[f.ID], f.Severity)
		}
		move(r, func(f report.Finding) *report.Suppression { return o.rule(r.File, f) })
		report.Sort(r.Suppressed)
	}
}

// nearest returns the index of the result about the object that a line of a file belongs to, or -1: the last object that
// begins before it, or else the first one.
func nearest(results []report.Result, file string, line int) int {
	at := -1
	for i, r := range results {
		if r.File != file {
			continue
		}
		before := r.Line <= line
		if at < 0 || before && (results[at].Line > line || r.Line >= results[at].Line) || !before && r.Line < results[at].Line {
			at = i
		}
	}
	return at
}

// move moves the findings that have a reason not to count.
func move(r *report.Result, why func(f report.Finding) *report.Suppression) {
	counting := []report.Finding{}
	for _, f := range r.Findings {
		if f.Suppression = why(f); f.Suppression != nil {
			r.Suppressed = append(r.Suppressed, f)
		} else {
			counting = append(counting, f)
		}
	}
	r.Findings = counting
}

// ignored moves the findings that comments and annotations ignore, and returns what is wrong with these.
func ignored(r *report.Result) []report.Finding {
	var wrong []report.Finding
	for _, ignore := range r.Ignores {
		if len(ignore.IDs) == 0 || ignore.Reason == "" {
			wrong = append(wrong, invalid(ignore))
			continue
		}
		used := map[string]bool{}
		move(r, func(f report.Finding) *report.Suppression {
			if !slices.Contains(ignore.IDs, f.ID) || ignore.Of != 0 && ignore.Of != f.Line {
				return nil
			}
			used[f.ID] = true
			return &report.Suppression{Kind: report.InSource, Justification: ignore.Reason}
		})
		for _, id := range ignore.IDs {
			if !used[id] {
				wrong = append(wrong, unused(ignore, id))
			}
		}
	}
	return wrong
}

func invalid(of report.Ignore) report.Finding {
	f := about(of, idInvalid, finding.Error)
	switch {
	case of.Of == 0 && len(of.IDs) == 0:
		f.Message, f.Remedy = "must name a finding after "+prefix, "correct the id"
	case of.Of == 0:
		f.Message, f.Remedy = "must state why the finding is ignored", "write the reason as the value"
	default:
		f.Message = "must have the form " + mark + " ID: REASON"
		f.Remedy = "correct the id, and write the reason after a colon"
	}
	return f
}

func unused(of report.Ignore, id string) report.Finding {
	f := about(of, idUnused, finding.Warning)
	where := "this object"
	if of.Of != 0 {
		where = fmt.Sprintf("line %d", of.Of)
	}
	f.Message, f.Remedy = fmt.Sprintf("ignores nothing: there is no finding %q in %s", id, where), "remove it or correct the id"
	return f
}

func about(of report.Ignore, id string, severity finding.Severity) report.Finding {
	return report.Finding{
		ID: id, Severity: severity, Path: cmp.Or(of.Path, "comment"), Value: of.Text, Line: of.Line, Column: of.Column, Excerpt: of.Excerpt,
	}
}

// rule returns what the first rule about a finding says, or nil.
func (o *Options) rule(file string, f report.Finding) *report.Suppression {
	for _, r := range o.Rules {
		if slices.Contains(r.IDs, f.ID) && r.applies(relative(o.Folder, file)) {
			return &report.Suppression{Kind: report.External, Justification: r.Reason}
		}
	}
	return nil
}

// applies reports whether the rule applies to a file, which is empty for objects of a cluster.
func (r *Rule) applies(file string) bool {
	return len(r.Paths) == 0 || file != "" && slices.ContainsFunc(r.Paths, func(pattern string) bool {
		pattern = path.Clean(pattern)
		folder := !strings.ContainsAny(path.Base(pattern), "*?[{")
		return pattern == "." || doublestar.MatchUnvalidated(pattern, file) || folder && doublestar.MatchUnvalidated(pattern+"/**", file)
	})
}

// relative returns the name of a file relative to a folder, with slashes; the name itself if there is no such path.
func relative(folder, file string) string {
	if file == "" {
		return ""
	}
	absolute, err := filepath.Abs(file)
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err == nil {
		file, err = filepath.Rel(folder, absolute)
	}
	if err != nil {
		return filepath.ToSlash(absolute)
	}
	return filepath.ToSlash(file)
}
