package catalog

import (
	"regexp"
	"strings"

	"quaymaster.dev/internal/catalog/check"
)

// bindings are what the placeholders of a family's name stand for in one key.
type bindings map[string]string

var placeholders = map[string]string{
	check.PlacePort: `([0-9]+)`, check.PlacePortName: `([a-z0-9-]+)`, check.PlacePortRef: `([a-z0-9-]+)`,
	check.PlaceProtocol: `((?i:tcp|udp|sctp))`, check.PlaceIndex: `([0-9]+)`, check.PlaceAny: `(.+)`,
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// template recognises the keys of a family.
type template struct {
	pattern *regexp.Regexp
	places  []string
}

func newTemplate(name string) *template {
	t := &template{places: placeholder.FindAllString(name, -1)}
	var pattern strings.Builder
	at := 0
	for _, where := range placeholder.FindAllStringIndex(name, -1) {
		expression, known := placeholders[name[where[0]:where[1]]]
		if !known {
			panic(name + ": has an unknown placeholder")
		}
		pattern.WriteString(regexp.QuoteMeta(name[at:where[0]]) + expression)
		at = where[1]
	}
	t.pattern = regexp.MustCompile("^" + pattern.String() + regexp.QuoteMeta(name[at:]) + "$")
	return t
}

// KeyPattern is a regular expression for the keys of a family.
func KeyPattern(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(newTemplate(name).pattern.String(), "^"), "$")
}

// IsOf tells whether a key belongs to the family of a name with placeholders.
func IsOf(name, key string) bool {
	if !strings.Contains(name, "{") {
		return false
	}
	_, ok := newTemplate(name).match(key)
	return ok
}

// match tells what the placeholders are in a key of the family.
func (t *template) match(key string) (bindings, bool) {
	groups := t.pattern.FindStringSubmatch(key)
	if groups == nil {
		return nil, false
	}
	b := bindings{}
	for i, place := range t.places {
		b[place] = groups[i+1]
	}
	return b, true
}

// expand is a name with the placeholders filled in that are bound.
func (b bindings) expand(name string) string {
	for place, value := range b {
		name = strings.ReplaceAll(name, place, value)
	}
	return name
}
