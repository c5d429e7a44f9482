package library

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
)

// Catalog describes the annotations of one controller. It is immutable.
type Catalog struct {
	document.Head

	// Selected is the version of the controller that Services are for; empty for all versions.
	Selected string

	contents func() *Contents
}

// Contents returns what the catalog says about annotations.
func (c *Catalog) Contents() *Contents { return c.contents() }

// Document returns the content of the catalog's file, completed with defaults. It must not be changed.
func (c *Catalog) Document() document.Document {
	return document.Document{Head: c.Head, Body: c.contents().Body}
}

// Described names the controller that the catalog describes, with version and date.
func (c *Catalog) Described() string {
	var controllers []string
	for controller := range strings.FieldsSeq(strings.NewReplacer(" and ", " ", ",", " ").Replace(c.Controller)) {
		controllers = append(controllers, controller[strings.LastIndexByte(controller, '/')+1:])
	}
	return "catalog of " + strings.Join(controllers, ", ") + " " + c.Version + ", " + c.Date
}

// Plain returns the annotation with this name. Names with placeholders are not found.
func (c *Catalog) Plain(key string) (*document.Annotation, bool) {
	if e, found := c.contents().ByName[key]; found {
		return e.Annotation, true
	}
	return nil, false
}

// HasPortForm reports whether a key is the form for a port of a known key, and returns that key.
func (c *Catalog) HasPortForm(key string) (plain string, ok bool) {
	plain, _, cut := c.CutPort(key)
	_, known := c.contents().ByName[plain]
	return plain, cut && known
}

// Knows reports whether the controller reads a key, on Services or on other objects.
func (c *Catalog) Knows(key string) bool {
	if c.IsElsewhere(key) {
		return true
	}
	_, _, found := c.contents().Find(key)
	return found
}

// IsElsewhere reports whether the controller reads a key only on other objects.
func (c *Catalog) IsElsewhere(key string) bool { return document.MatchesAny(c.Elsewhere, key) }

// ReadsOnServices reports whether the controller reads a key on Services, at least on some.
func (c *Catalog) ReadsOnServices(key string) bool {
	return len(c.Kinds) == 0 || document.MatchesAny(c.OnServices, key)
}

// ReadsKey reports whether a key may have an effect on a Service of the controller.
func (c *Catalog) ReadsKey(key string) bool {
	return document.HasPrefix(key, c.Prefixes) || slices.Contains(c.Reads, key)
}

// Concerns reports whether a key may belong to the controller according to its prefix.
func (c *Catalog) Concerns(key string) bool {
	return document.HasPrefix(key, c.Prefixes) || document.HasPrefix(key, c.SharedPrefixes)
}

// CutPort splits a key before the first dot after its prefix.
func (c *Catalog) CutPort(key string) (plain, suffix string, cut bool) {
	prefix, rest := c.Split(key)
	at := strings.IndexByte(rest, '.')
	if at < 0 {
		return key, "", false
	}
	return key[:len(prefix)+at], rest[at:], true
}
