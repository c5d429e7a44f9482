package vendors

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/internal/rules/catalog/library"
)

// misspell sets an annotation whose key or value has a typo.
func (m *maker) misspell(e *library.Entry, key, value string) {
	if m.chance(4) {
		// A typo may split a letter of several bytes; no manifest contains the rest of one.
		m.set(key, strings.ToValidUTF8(m.typo(value), "\ufffd"))
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
	if len(word) < 3 {
		return word + "x"
	}
	at := 1 + m.r.IntN(len(word)-2)
	switch m.r.IntN(6) {
	case 0:
		return word[:at] + word[at+1:]
	case 1:
		return word[:at] + word[at:at+1] + word[at:]
	case 2:
		return word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:]
	case 3:
		return strings.ReplaceAll(word, "-", "_")
	case 4:
		return strings.ToUpper(word[:1]) + word[1:]
	}
	return word[:at] + "x" + word[at+1:]
}
