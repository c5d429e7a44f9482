package document

import (
	"regexp"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/check"
)

// Bindings hold the values of the placeholders of a family's name in one key.
type Bindings map[string]string

var placeholders = map[string]string{
	check.PlacePort: `([0-9]+)`, check.PlacePortName: `([a-z0-9-]+)`, check.PlacePortRef: `([a-z0-9-]+)`,
	check.PlaceProtocol: `((?i:tcp|udp|sctp))`, check.PlaceIndex: `([0-9]+)`, check.PlaceAny: `(.+)`,
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// unknownPlaceholders returns the placeholders of a name that do not exist.
func unknownPlaceholders(name string) []string {
	return slices.DeleteFunc(placeholder.FindAllString(name, -1), func(place string) bool { return placeholders[place] != "" })
}

// Template matches the keys of a family.
type Template struct {
	pattern *regexp.Regexp
	places  []string
}

// NewTemplate returns the template of a name, whose placeholders must exist.
func NewTemplate(name string) *Template {
	t := &Template{places: placeholder.FindAllString(name, -1)}
	var pattern strings.Builder
	at := 0
	for _, where := range placeholder.FindAllStringIndex(name, -1) {
		expression, known := placeholders[name[where[0]:where[1]]]
		if !known {
			panic(name + ": unknown placeholder")
		}
		pattern.WriteString(regexp.QuoteMeta(name[at:where[0]]) + expression)
		at = where[1]
	}
	t.pattern = regexp.MustCompile("^" + pattern.String() + regexp.QuoteMeta(name[at:]) + "$")
	return t
}

// KeyPattern returns a regular expression for the keys of a family, without anchors.
func KeyPattern(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(NewTemplate(name).pattern.String(), "^"), "$")
}

// InFamily reports whether a key belongs to the family of a name with placeholders.
func InFamily(name, key string) bool {
	if !strings.Contains(name, "{") {
		return false
	}
	_, ok := NewTemplate(name).Match(key)
	return ok
}

// Match returns the values of the placeholders in a key of the family; ok is false for any other key.
func (t *Template) Match(key string) (b Bindings, ok bool) {
	groups := t.pattern.FindStringSubmatch(key)
	if groups == nil {
		return nil, false
	}
	b = Bindings{}
	for i, place := range t.places {
		b[place] = groups[i+1]
	}
	return b, true
}

// Expand replaces the placeholders of a name that have a value.
func (b Bindings) Expand(name string) string {
	for place, value := range b {
		name = strings.ReplaceAll(name, place, value)
	}
	return name
}
