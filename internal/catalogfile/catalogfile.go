// Package catalogfile adds the catalogs of users to the built-in ones. They are YAML files in the format of package
// document.
package catalogfile

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/manifest"
)

// Limits of what users can add. The time to validate a Service grows with the number of annotations of a catalog.
const (
	maxBytes       = 256 << 10
	maxAnnotations = 500
	maxFiles       = 20
)

// Source is the content of one file.
type Source struct {
	Name string
	Data []byte
}

// Read reads files, and those of directories whose names end in .yaml. What cannot be read is a problem.
func Read(paths []string) (sources []Source, problems []manifest.Problem) {
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			// The only error is that of an invalid pattern, and the name of a directory matches itself.
			names, _ = filepath.Glob(filepath.Join(path, "*.yaml"))
		}
		for _, name := range names {
			data, err := readFile(name)
			if err != nil {
				problems = append(problems, manifest.Problem{File: name, Message: err.Error()})
				continue
			}
			sources = append(sources, Source{Name: name, Data: data})
		}
	}
	return sources, problems
}

// readFile reads no more than shows that a file is too large.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

// Extend returns a library with the catalogs of files, each of which adds a catalog or changes one, and every problem of
// the files. With problems, the library is the given one.
func Extend(base *library.Library, sources []Source) (*library.Library, []manifest.Problem) {
	if len(sources) > maxFiles {
		return base, []manifest.Problem{{File: sources[0].Name, Message: fmt.Sprintf("is one of %d catalog files; at most %d are allowed",
			len(sources), maxFiles)}}
	}
	extended, problems := base, []manifest.Problem(nil)
	for _, s := range sources {
		f := &file{name: s.Name, base: extended}
		if d, ok := f.read(s.Data); ok {
			extended = extended.With(d)
		}
		problems = append(problems, f.problems...)
	}
	if len(problems) > 0 {
		return base, problems
	}
	return extended, nil
}

// file is a file while it is read.
type file struct {
	name     string
	base     *library.Library
	problems []manifest.Problem
	// head and body are its two documents.
	head, body *manifest.Object
}

// read returns the catalog that the file adds, or the changed one; ok is false if there are problems.
func (f *file) read(data []byte) (d document.Document, ok bool) {
	if len(data) > maxBytes {
		f.report(0, "must have at most %d KiB", maxBytes>>10)
		return d, false
	}
	parsed := manifest.Parse(f.name, data, func(string, string) bool { return true })
	f.problems = parsed.Problems
	if len(f.problems) > 0 {
		return d, false
	}
	if len(parsed.Objects) != 2 {
		f.report(0, "must have two YAML documents, the head and the body of a catalog, separated by ---; has %d", len(parsed.Objects))
		return d, false
	}
	f.head, f.body = parsed.Objects[0], parsed.Objects[1]
	own := document.Document{Head: *decode[document.Head](f, f.head), Body: *decode[document.Body](f, f.body)}
	decoded := len(f.problems)
	if existing, found := f.base.Find(own.Name); own.Own || found && existing.Own {
		f.report(f.head.Line, "must not be a catalog of Quaymaster's own controller")
		return d, false
	}
	d = f.complete(own)
	for _, p := range d.Problems() {
		at := f.line(own, p)
		// What is missing where something could not be decoded has been reported.
		if !slices.ContainsFunc(f.problems[:decoded], func(m manifest.Problem) bool { return f.part(m.Line) == f.part(at) }) {
			f.report(at, "%s", p.Text)
		}
	}
	return d, len(f.problems) == 0
}

// decode decodes a document, and reports what does not match its type.
func decode[T any](f *file, o *manifest.Object) *T {
	decoded, mistakes := manifest.Decode[T](o)
	f.problems = append(f.problems, manifest.Problems(f.name, mistakes)...)
	return decoded
}

// complete returns the catalog of the file with that of the same name which it changes, and reports what no file may
// contain.
func (f *file) complete(own document.Document) document.Document {
	if len(own.Annotations) > maxAnnotations {
		f.report(f.body.Line, "must have at most %d annotations; has %d", maxAnnotations, len(own.Annotations))
	}
	for _, mine := range f.base.Own() {
		for _, prefix := range slices.Concat(own.Prefixes, mine.Prefixes) {
			if document.HasPrefix(prefix, mine.Prefixes) && document.HasPrefix(prefix, own.Prefixes) {
				f.report(f.head.Find("prefixes").Line, "prefix %s belongs to the catalog %s", prefix, mine.Name)
			}
		}
	}
	existing, found := f.base.Find(own.Name)
	if !found {
		return own
	}
	return copied(existing.Document().Extended(own))
}

// copied returns a document that shares nothing with the given one, which belongs to a catalog in use.
func copied(d document.Document) document.Document {
	var c document.Document
	raw, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		panic(err) // it was decoded from YAML
	}
	return c
}

// part returns the line in which the annotation or check of a line begins, or the line of a document.
func (f *file) part(line int) int {
	part := f.head.Line
	if line >= f.body.Line {
		part = f.body.Line
	}
	for _, list := range []string{"annotations", "checks"} {
		for i := range maxAnnotations {
			at := f.body.Find(fmt.Sprintf("%s[%d]", list, i)).Line
			if at <= f.body.Line && i > 0 || at > line {
				break
			}
			part = max(part, at)
		}
	}
	return part
}

// line returns the line of what a problem is in.
func (f *file) line(own document.Document, p document.Problem) int {
	if at := slices.IndexFunc(own.Annotations, func(a document.Annotation) bool { return a.Name == p.Annotation }); at >= 0 {
		return f.body.Find(fmt.Sprintf("annotations[%d]", at)).Line
	}
	if at := slices.IndexFunc(own.Checks, func(c document.Check) bool { return c.ID == p.Check }); at >= 0 {
		return f.body.Find(fmt.Sprintf("checks[%d]", at)).Line
	}
	return f.head.Line
}

func (f *file) report(line int, format string, args ...any) {
	f.problems = append(f.problems, manifest.Problem{File: f.name, Line: line, Message: fmt.Sprintf(format, args...)})
}

// Errors returns problems as errors of --catalog-file.
func Errors(problems []manifest.Problem) []error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("--catalog-file: %s", p))
	}
	return errs
}
