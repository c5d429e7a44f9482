// Package settings reads .quayctl.yaml, the config file of the linter.
package settings

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/reference"
	"quaymaster.dev/internal/tool/suppress"
)

// Name is the file that is read if no other one is given.
const Name = ".quayctl.yaml"

// Settings are the contents of the file.
type Settings struct {
	// Catalogs are those of --catalog, which may have versions of the controllers, as in hcloud@1.30.
	Catalogs []string `json:"catalogs,omitempty"`
	// CatalogFiles are those of --catalog-file, relative to the folder of this file.
	CatalogFiles []string `json:"catalogFiles,omitempty"`
	// UnknownKeys is --unknown-keys.
	UnknownKeys []string `json:"unknownKeys,omitempty"`
	// Severities are those of findings by their id: error, warning or note.
	Severities map[string]finding.Severity `json:"severities,omitempty"`
	// Ignores are rules about findings that do not count.
	Ignores []suppress.Rule `json:"ignores,omitempty"`
	// Templates say where other objects have the annotations of Services.
	Templates []template.Template `json:"templates,omitempty"`
}

// File is a file that was read.
type File struct {
	Settings

	name   string
	object *manifest.Object
}

// Read reads a file.
func Read(name string) (*File, []manifest.Problem) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, []manifest.Problem{{File: name, Message: err.Error()}}
	}
	parsed := manifest.Parse(name, data, func(string, string) bool { return true })
	switch {
	case len(parsed.Problems) > 0:
		return nil, parsed.Problems
	case len(parsed.Objects) == 0:
		return &File{name: name}, nil
	case len(parsed.Objects) > 1:
		return nil, []manifest.Problem{{File: name, Line: parsed.Objects[1].Line, Message: "must have one YAML document"}}
	}
	f := &File{name: name, object: parsed.Objects[0]}
	decoded, mistakes := manifest.Decode[Settings](f.object)
	f.Settings = *decoded
	for i, file := range f.CatalogFiles {
		if !filepath.IsAbs(file) {
			f.CatalogFiles[i] = filepath.Join(f.Folder(), file)
		}
	}
	return f, manifest.Problems(name, mistakes)
}

// Folder is what the paths in the file are relative to.
func (f *File) Folder() string { return filepath.Dir(f.name) }

// Problems returns what is wrong with the values of the file. l has the catalogs whose findings it may name.
func (f *File) Problems(l *library.Library) []manifest.Problem {
	if f.object == nil {
		return nil
	}
	var problems []manifest.Problem
	report := func(path, format string, args ...any) {
		problems = append(problems, manifest.Problem{
			File: f.name, Line: f.object.Find(path).Line, Message: path + ": " + fmt.Sprintf(format, args...),
		})
	}
	for i, name := range f.Catalogs {
		plain, _, _ := strings.Cut(name, "@")
		if _, found := l.Find(plain); !found {
			report(fmt.Sprintf("catalogs[%d]", i), "must be one of %s; got %q%s", strings.Join(l.Names(), ", "), name, l.DidYouMean(name))
		}
	}
	if _, _, err := l.At(f.Catalogs); err != nil {
		report("catalogs", "%s", err)
	}
	for i, how := range f.UnknownKeys {
		if _, errs := selection.UnknownKeys([]string{how}, l.Names()); len(errs) > 0 {
			report(fmt.Sprintf("unknownKeys[%d]", i), "%s", strings.TrimPrefix(errs[0].Error(), "--unknown-keys "))
		}
	}
	for id, severity := range f.Severities {
		path := "severities[" + id + "]"
		if !reference.KnownFinding(l, id) {
			report(path, "unknown finding%s", didYouMean(l, id))
		}
		if !slices.Contains([]finding.Severity{finding.Error, finding.Warning, finding.Note}, severity) {
			report(path, "must be error, warning or note; got %q", severity)
		}
	}
	for i, rule := range f.Ignores {
		path := fmt.Sprintf("ignores[%d]", i)
		if strings.TrimSpace(rule.Reason) == "" {
			report(path, "must have a reason")
		}
		if len(rule.IDs) == 0 {
			report(path, "must have ids of findings")
		}
		for k, id := range rule.IDs {
			if !reference.KnownFinding(l, id) {
				report(fmt.Sprintf("%s.ids[%d]", path, k), "unknown finding %q%s", id, didYouMean(l, id))
			}
		}
		for k, pattern := range rule.Paths {
			if !doublestar.ValidatePattern(pattern) {
				report(fmt.Sprintf("%s.paths[%d]", path, k), "must be a pattern such as deploy/**/*.yaml; got %q", pattern)
			}
		}
	}
	for i, t := range f.Templates {
		path := fmt.Sprintf("templates[%d]", i)
		for _, problem := range t.Problems() {
			report(path, "%s", problem)
		}
		for k, name := range t.Catalogs {
			if _, found := l.Find(name); !found {
				report(fmt.Sprintf("%s.catalogs[%d]", path, k), "unknown catalog %q%s", name, l.DidYouMean(name))
			}
		}
	}
	slices.SortStableFunc(problems, func(a, b manifest.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return problems
}

// didYouMean returns a suggestion to append to an error about the id of a finding, or the empty string.
func didYouMean(l *library.Library, id string) string {
	if suggestion := reference.Nearest(l, nil, id); suggestion != "" {
		return fmt.Sprintf("; did you mean %q?", suggestion)
	}
	return ""
}
