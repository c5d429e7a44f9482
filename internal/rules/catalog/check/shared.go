package check

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// sharedFuncs holds the less general functions that several clouds use.
var sharedFuncs = map[string]Func{
	"network-cidrs": {
		Help:     "No CIDR has host bits set. A check of the Service sets field, which holds the CIDRs.",
		Optional: []string{"field"},
		Check:    networkCIDRs,
	},
	"at-most-so-many": {
		Help:  "The list has at most as many distinct elements as the number of another key.",
		Args:  []string{"key"},
		Check: atMostSoMany,
	},
	"at-most-distinct": {
		Help:  "The list has at most max elements; duplicates count once.",
		Args:  []string{"max"},
		Check: atMostDistinct,
	},
	"spelled": {
		Help:  "A value that equals as in any case has exactly that spelling.",
		Args:  []string{"as"},
		Check: spelled,
	},
	"key-less-than": {
		Help:  "The number of key is less than the number of than, for checks of the Service.",
		Args:  []string{"key", "than"},
		Check: keyLessThan,
	},
	"not-itself": {
		Help:  "The value is not the Service's own namespace and name, with a slash between them.",
		Check: notItself,
	},
	"field-is": {
		Help:  "Every value of a field satisfies a rule of go-playground/validator.",
		Args:  []string{"field", "rule"},
		Check: fieldIs,
	},
}

// notItself reports a Service that names itself.
func notItself(s Subject) string {
	if s.Service.Namespace+"/"+s.Service.Name == s.Value.Text {
		return "name a different Service"
	}
	return ""
}

// networkCIDRs reports a CIDR that has host bits set.
func networkCIDRs(s Subject) string {
	list := s.Value.List
	if path := s.With["field"]; path != "" {
		list = spec.Values(s.Service, path)
	}
	for _, element := range list {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(element)); err == nil && prefix.Masked() != prefix {
			return fmt.Sprintf("not have host bits set; instead of %s, use %s",
				annotation.Quote(element), prefix.Masked())
		}
	}
	return ""
}

// atMostSoMany compares the length of a list without duplicates with the number of another key.
func atMostSoMany(s Subject) string {
	other, found := s.Other(s.With["key"])
	distinct := slices.Compact(slices.Sorted(slices.Values(s.Value.List)))
	if !found || float64(len(distinct)) <= other.Number {
		return ""
	}
	return fmt.Sprintf("have at most as many elements as %s, which is %s", s.View.Expand(s.With["key"]), other.Text)
}

func atMostDistinct(s Subject) string {
	if distinct := slices.Compact(slices.Sorted(slices.Values(s.Value.List))); float64(len(distinct)) > s.most() {
		return fmt.Sprintf("have at most %s elements, but has %d", s.With["max"], len(distinct))
	}
	return ""
}

func spelled(s Subject) string {
	if word := s.With["as"]; strings.EqualFold(s.Raw, word) && s.Raw != word {
		return "be spelled exactly " + word
	}
	return ""
}

func fieldIs(s Subject) string {
	t := annotation.Type{Type: annotation.Text, Rule: s.With["rule"]}
	for _, value := range spec.Values(s.Service, s.With["field"]) {
		if _, err := t.Parse(value); err != nil {
			return "be " + t.Expected()
		}
	}
	return ""
}

func keyLessThan(s Subject) string {
	number, found := s.Other(s.With["key"])
	than, alsoFound := s.Other(s.With["than"])
	if !found || !alsoFound || number.Number < than.Number {
		return ""
	}
	return fmt.Sprintf("be less than %s, which is %s", s.With["than"], than.Text)
}

// aboutPorts checks that the keys of JSON are values of a field of the Service's ports.
func aboutPorts(s Subject, field string) string {
	object, _ := s.Value.JSON.(map[string]any)
	ports := spec.Values(s.Service, field)
	for _, port := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(ports, port) {
			return fmt.Sprintf("be about ports of the Service (%s), not %s", strings.Join(ports, ", "), annotation.Quote(port))
		}
	}
	return ""
}
