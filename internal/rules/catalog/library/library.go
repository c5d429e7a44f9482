// Package library holds the catalogs that are built in, prepared for use: which annotations a controller reads, which
// known key an unknown one is probably a typo of, and which controllers a Service is probably written for.
package library

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
)

// files are the catalogs in the form that the compiler writes: the head in the first line, the body in the second.
//
//go:embed compiled/*.json
var files embed.FS

// Library is a collection of catalogs. It is immutable.
type Library struct {
	byName map[string]*Catalog
	names  []string
	own    []*Catalog
}

// BuiltIn returns the catalogs of this build. It decodes the heads on first use, and each body only when it is needed,
// so that programs start fast.
var BuiltIn = sync.OnceValue(func() *Library {
	entries, err := files.ReadDir("compiled")
	must(err)
	catalogs := make([]*Catalog, 0, len(entries))
	for _, entry := range entries {
		raw, err := files.ReadFile(path.Join("compiled", entry.Name()))
		must(err)
		head, body, _ := bytes.Cut(raw, []byte("\n"))
		c := &Catalog{}
		must(json.Unmarshal(head, &c.Head))
		c.contents = sync.OnceValue(func() *Contents {
			var b document.Body
			must(json.Unmarshal(body, &b))
			return newContents(c.Head, b)
		})
		catalogs = append(catalogs, c)
	}
	return newLibrary(catalogs)
})

// With returns a library with more catalogs, which replace those of the same name. They must be free of problems.
func (l *Library) With(documents ...document.Document) *Library {
	byName := maps.Clone(l.byName)
	for _, d := range documents {
		byName[d.Name] = &Catalog{
			Head: d.Head, contents: sync.OnceValue(func() *Contents { return newContents(d.Head, d.Body) }),
		}
	}
	return newLibrary(slices.Collect(maps.Values(byName)))
}

// At cuts versions off names of catalogs, such as hcloud@1.30. It returns the names alone, and a library in which these
// catalogs are for these versions of the controllers. Names of unknown catalogs may remain.
func (l *Library) At(names []string) (at *Library, plain []string, err error) {
	byName := maps.Clone(l.byName)
	for _, name := range names {
		name, version, cut := strings.Cut(name, "@")
		plain = append(plain, name)
		c := byName[name]
		switch {
		case !cut || c == nil:
			continue
		case !document.IsVersion(version):
			return nil, nil, fmt.Errorf("must have a version such as 1.30 after %s@; got %q", name, version)
		case !c.contents().Versioned():
			return nil, nil, fmt.Errorf("must not have a version after %s, whose catalog does not know which versions read a key", name)
		case c.Selected != "" && c.Selected != version:
			return nil, nil, fmt.Errorf("must have one version of %s; got %s and %s", name, c.Selected, version)
		}
		selected := *c
		selected.Selected = version
		byName[name] = &selected
	}
	return newLibrary(slices.Collect(maps.Values(byName))), plain, nil
}

func newLibrary(catalogs []*Catalog) *Library {
	l := &Library{byName: map[string]*Catalog{}}
	for _, c := range catalogs {
		l.byName[c.Name] = c
		l.names = append(l.names, c.Name)
	}
	slices.Sort(l.names)
	for _, name := range l.names {
		if c := l.byName[name]; c.Own {
			l.own = append(l.own, c)
		}
	}
	return l
}

// Names returns the names of all catalogs, sorted.
func (l *Library) Names() []string { return slices.Clone(l.names) }

// Services returns the names of the catalogs of Services, sorted.
func (l *Library) Services() []string {
	return slices.DeleteFunc(l.Names(), func(name string) bool { return len(l.byName[name].Kinds) > 0 })
}

// OfOthers returns the names of the catalogs of other objects, sorted.
func (l *Library) OfOthers() []string {
	return slices.DeleteFunc(l.Names(), func(name string) bool { return len(l.byName[name].Kinds) == 0 })
}

// Find returns the catalog with this name.
func (l *Library) Find(name string) (c *Catalog, found bool) {
	c, found = l.byName[name]
	return c, found
}

// DidYouMean returns a suggestion to append to an error about an unknown name, or the empty string: a name that is spelled
// alike, or that of a catalog with the word in its title, such as hcloud for hetzner.
func (l *Library) DidYouMean(name string) string {
	suggestion, near := annotation.Suggest(name, l.names)
	if !near {
		titled := slices.IndexFunc(l.names, func(known string) bool {
			words := strings.FieldsFunc(strings.ToLower(l.byName[known].Title), func(r rune) bool { return !unicode.IsLetter(r) })
			return slices.Contains(words, strings.ToLower(name))
		})
		if titled < 0 {
			return ""
		}
		suggestion = l.names[titled]
	}
	return fmt.Sprintf("; did you mean %q?", suggestion)
}

// Own returns the catalogs of Quaymaster's own controller.
func (l *Library) Own() []*Catalog { return l.own }

// OwnCatalog returns the catalog of Quaymaster's own controller that the prefix of a key belongs to.
func (l *Library) OwnCatalog(key string) (*Catalog, bool) {
	for _, c := range l.own {
		if document.HasPrefix(key, c.Prefixes) {
			return c, true
		}
	}
	return nil, false
}

// must panics on an error that only a bug in the program can cause, never its input.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
