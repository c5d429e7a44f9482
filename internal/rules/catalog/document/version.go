package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// versionShape is that of versions of controllers; v at the beginning may be missing.
var versionShape = regexp.MustCompile(`^v?[0-9]{1,9}(\.[0-9]{1,9}){0,2}$`)

// IsVersion reports whether a text is the version of a controller, such as v1.39.0 or 1.39.
func IsVersion(text string) bool { return versionShape.MatchString(text) }

// before compares versions by the parts that both have: 1.39 is neither before nor after v1.39.2.
func before(a, b string) bool {
	as, bs := strings.Split(strings.TrimPrefix(a, "v"), "."), strings.Split(strings.TrimPrefix(b, "v"), ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i]) // both are versions
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x < y
		}
	}
	return false
}

// reaches reports whether all of what a version stands for is the other one or later: 2 does not reach v2.1.0, but 2.1 does.
func reaches(version, other string) bool {
	other = strings.TrimSuffix(strings.TrimSuffix(other, ".0"), ".0")
	return before(other, version) || !before(version, other) && strings.Count(version, ".") >= strings.Count(other, ".")
}

// Versioned reports whether the catalog knows which versions of the controller read one of its keys.
func (b *Body) Versioned() bool {
	for i := range b.Annotations {
		if b.Annotations[i].Since+b.Annotations[i].Until != "" {
			return true
		}
	}
	return false
}

// NotIn returns why a version of the controller does not read the key; empty if it does, or if version is empty.
func (a *Annotation) NotIn(version string) string {
	switch {
	case version == "":
		return ""
	case a.Since != "" && before(version, a.Since):
		return fmt.Sprintf("has no effect: controllers before %s do not read it, and %s is selected", a.Since, version)
	case a.Until != "" && reaches(version, a.Until):
		return fmt.Sprintf("has no effect: controllers from %s on do not read it, and %s is selected", a.Until, version)
	}
	return ""
}

func (p *problems) versions(a *Annotation) {
	for _, version := range []string{a.Since, a.Until} {
		if version != "" && !IsVersion(version) {
			p.add("%s: since and until must be versions such as v1.39.0; got %q", a.Name, version)
		}
	}
	if a.Since != "" && a.Until != "" && !before(a.Since, a.Until) {
		p.add("%s: until must be later than since", a.Name)
	}
}
