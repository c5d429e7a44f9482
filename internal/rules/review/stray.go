package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

const (
	// keyPrefix is that of the keys by which Quaymaster and users talk about single Services, which have no catalog.
	keyPrefix = "quaymaster.dev/"
	// ownPrefix is that of the keys of Quaymaster's own controller: a domain and the stem of names.
	ownDomain, ownStem = "service.beta.kubernetes.io", "dlb"
	ownPrefix          = ownDomain + "/" + ownStem + "-"
	// maxStrays bounds the search for typos, as for unknown keys of catalogs.
	maxStrays = 20
)

// KnownKeys are the keys with the prefix quaymaster.dev/ that Services may have.
var KnownKeys = []string{
	"quaymaster.dev/abandon-load-balancer", "quaymaster.dev/defaulted", "quaymaster.dev/load-balancer",
	"quaymaster.dev/load-balancer-claim", "quaymaster.dev/probe", "quaymaster.dev/refresh-defaults",
}

// strays returns findings about keys that nothing reads and that no catalog reports, because they lack its prefix.
func strays(set catalog.Set, svc *corev1.Service) []finding.Finding {
	var suspects []string
	for key := range svc.Annotations {
		suspect := false
		switch {
		case strings.HasPrefix(key, ownPrefix):
		case strings.HasPrefix(key, keyPrefix):
			suspect = !slices.Contains(KnownKeys, key)
		default:
			suspect = hasOwnStem(key) && set.Owned(svc)
		}
		if suspect {
			suspects = append(suspects, key)
		}
	}
	slices.Sort(suspects)
	var findings []finding.Finding
	for _, key := range suspects[:min(len(suspects), maxStrays)] {
		if strings.HasPrefix(key, keyPrefix) {
			findings = append(findings, unknownKey(key, svc.Annotations[key]))
		} else if meant, ok := Meant(set.Library(), key); ok {
			findings = append(findings, finding.Finding{
				ID: IDMisspelledKey, Check: IDMisspelledKey, Severity: finding.Error,
				Type: field.ErrorTypeInvalid, Field: catalog.Path(key), Value: svc.Annotations[key], Message: "unknown annotation",
				Remedy: fmt.Sprintf("did you mean %q?", meant),
			})
		}
	}
	return findings
}

// strayBefore returns the findings of strays that the Service before the update had as well, without searching again.
func strayBefore(set catalog.Set, svc *corev1.Service, current []finding.Finding) []finding.Finding {
	if !set.Owned(svc) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(current), func(f finding.Finding) bool {
		key := f.Key()
		value, set := svc.Annotations[key]
		return !set || value != f.Value
	})
}

// unknownKey is a warning, because a later version could write the key.
func unknownKey(key, value string) finding.Finding {
	f := finding.Finding{
		ID: IDUnknownKey, Severity: finding.Warning, Field: catalog.Path(key), Value: value,
		Message: "unknown annotation of Quaymaster", Remedy: "remove it",
	}
	name := strings.TrimPrefix(key, keyPrefix)
	var names []string
	for _, known := range KnownKeys {
		names = append(names, strings.TrimPrefix(known, keyPrefix))
	}
	if nearest, near := annotation.Suggest(name, names); near {
		f.Message, f.Remedy = "unknown annotation", fmt.Sprintf("did you mean %q?", keyPrefix+nearest)
	}
	return f
}

// Meant returns the key of Quaymaster's own controller that another one is probably a typo of: one with a typo before
// the name of the setting, such as dbl-scheduler, or in the part before the slash.
func Meant(l *library.Library, key string) (meant string, ok bool) {
	if !hasOwnStem(key) || strings.HasPrefix(key, ownPrefix) {
		return "", false
	}
	domain, name := cutDomain(key)
	if _, near := annotation.Suggest(domain, []string{ownDomain}); domain != "" && !near {
		return "", false
	}
	word, setting := cutWord(name)
	meant = ownPrefix + setting
	own, _ := l.OwnCatalog(ownPrefix) // it exists
	if _, formed := own.HasPortForm(meant); !formed && !own.Knows(meant) {
		// Two typos are only certain if the first has the same letters: elb- is probably that of another controller.
		suggestion, near := own.Suggest(meant)
		if !near || lettersOfStem(word) < len(ownStem) {
			return "", false
		}
		meant = suggestion
	}
	for _, name := range l.Names() {
		if c, _ := l.Find(name); c.Knows(key) {
			return "", false
		}
	}
	return meant, true
}

// hasOwnStem reports whether the name of a key starts with the word that the keys of Quaymaster's own controller start
// with, or with a typo of it: one letter may be wrong, missing or too much.
func hasOwnStem(key string) bool {
	_, name := cutDomain(key)
	word, _ := cutWord(name)
	return len(word) >= len(ownStem)-1 && len(word) <= len(ownStem)+1 && lettersOfStem(word) >= len(ownStem)-1
}

// lettersOfStem returns how many letters of the stem are in a word, in any order and case.
func lettersOfStem(word string) (n int) {
	for _, letter := range ownStem {
		if strings.ContainsAny(word, string([]rune{letter, unicode.ToUpper(letter)})) {
			n++
		}
	}
	return n
}

// cutWord splits a name after its first word. Without a separator, there is no word.
func cutWord(name string) (word, rest string) {
	at := strings.IndexAny(name, "-_.")
	if at < 0 {
		return "", name
	}
	return name[:at], name[at+1:]
}

// cutDomain splits a key at its slash. Without one, there is only a name.
func cutDomain(key string) (domain, name string) {
	if domain, name, cut := strings.Cut(key, "/"); cut {
		return domain, name
	}
	return "", key
}
