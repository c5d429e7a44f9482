package vendors

import (
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/internal/rules/catalog/library"
)

// misspell sets an annotation whose key or value has a typo.
func (m *maker) misspell(e *library.Entry, key, value string) {
	if m.chance(4) {
		m.set(key, m.typo(value))
		return
	}
	domain, name, hasDomain := strings.Cut(key, "/")
	wrong := m.typo(name)
	if hasDomain {
		wrong = domain + "/" + wrong
	}
	switch {
	case len(e.Also) > 0 && m.chance(2):
		wrong = m.fill(m.one(e.Also))
	case m.chance(8) && hasDomain:
		wrong = strings.ToUpper(domain[:1]) + domain[1:] + "/" + name
	case hasDomain && m.chance(8):
		wrong = m.typo(domain) + "/" + name
	}
	// The API server accepts no other keys.
	if len(validation.IsQualifiedName(strings.ToLower(wrong))) == 0 {
		m.set(wrong, value)
	}
}

// typo returns a word with a letter missing, doubled, swapped or different.
func (m *maker) typo(word string) string {
	letters := []rune(word)
	if len(letters) < 3 {
		return word + "x"
	}
	at := 1 + m.r.IntN(len(letters)-2)
	switch m.r.IntN(6) {
	case 0:
		letters = slices.Delete(letters, at, at+1)
	case 1:
		letters = slices.Insert(letters, at, letters[at])
	case 2:
		letters[at], letters[at+1] = letters[at+1], letters[at]
	case 3:
		return strings.ReplaceAll(word, "-", "_")
	case 4:
		letters[0] = unicode.ToUpper(letters[0])
	default:
		letters[at] = 'x'
	}
	return string(letters)
}
