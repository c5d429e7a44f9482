package catalog

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/annotation"
)

// shared holds the behaviours, besides the general ones, that several vendors use.
var shared = map[string]Behaviour{
	"network-cidrs": {
		Help:     "No CIDR has host bits set. A rule names the field with the CIDRs.",
		Optional: []string{"field"},
		Judge:    networkCIDRs,
	},
	"at-most-so-many": {
		Help:  "The list has at most as many distinct elements as the number of another key.",
		Args:  []string{"key"},
		Judge: atMostSoMany,
	},
	"at-most-distinct": {
		Help:  "The list has at most max elements; duplicates count once.",
		Args:  []string{"max"},
		Judge: atMostDistinct,
	},
	"spelled": {
		Help:  "One value of a case-insensitive type is accepted only in this spelling.",
		Args:  []string{"as"},
		Judge: spelled,
	},
	"key-less-than": {
		Help:  "The number of one key is less than that of another, for rules.",
		Args:  []string{"key", "than"},
		Judge: keyLessThan,
	},
	"field-is": {
		Help:  "Every value of a field satisfies a rule of go-playground/validator.",
		Args:  []string{"field", "rule"},
		Judge: fieldIs,
	},
}

// networkCIDRs reports a CIDR that has host bits set.
func networkCIDRs(s Subject) string {
	list := s.Value.List
	if ask, isField := fields[s.With["field"]]; isField {
		list = ask(s.Service)
	}
	for _, element := range list {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(element)); err == nil && prefix.Masked() != prefix {
			return fmt.Sprintf("not have host bits set; instead of %s, use %s", annotation.Quote(element), prefix.Masked())
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
	return fmt.Sprintf("have at most as many elements as %s, which is %s", s.bindings.expand(s.With["key"]), other.Text)
}

func atMostDistinct(s Subject) string {
	most, err := strconv.Atoi(s.With["max"])
	must(err)
	if distinct := slices.Compact(slices.Sorted(slices.Values(s.Value.List))); len(distinct) > most {
		return fmt.Sprintf("have at most %d elements, but has %d", most, len(distinct))
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
	for _, value := range fields[s.With["field"]](s.Service) {
		if _, err := t.Parse(value); err != nil {
			return "be " + t.Expected()
		}
	}
	return ""
}

func keyLessThan(s Subject) string {
	number, found := s.Other(s.With["key"])
	than, both := s.Other(s.With["than"])
	if !found || !both || number.Number < than.Number {
		return ""
	}
	return fmt.Sprintf("be less than %s, which is %s", s.With["than"], than.Text)
}
