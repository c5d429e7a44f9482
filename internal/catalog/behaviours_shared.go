package catalog

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/annotation"
)

// shared are behaviours that several vendors need, beside the general ones.
var shared = map[string]Behaviour{
	"network-cidrs": {
		Help:     "No CIDR has bits behind those of the network. A rule names the field that they are in.",
		Optional: []string{"field"},
		Judge:    networkCIDRs,
	},
	"at-most-so-many": {
		Help:  "The list has at most as many distinct elements as the number of another key.",
		Args:  []string{"key"},
		Judge: atMostSoMany,
	},
	"at-most-distinct": {
		Help:  "The list has at most max elements; what occurs twice counts once.",
		Args:  []string{"max"},
		Judge: atMostDistinct,
	},
	"spelled": {
		Help:  "One word of a type that folds case is understood only as it is given here.",
		Args:  []string{"as"},
		Judge: spelled,
	},
	"key-less-than": {
		Help:  "The number of one key is less than that of another, for rules.",
		Args:  []string{"key", "than"},
		Judge: keyLessThan,
	},
	"field-is": {
		Help:  "Every value of a field keeps a rule of go-playground/validator.",
		Args:  []string{"field", "rule"},
		Judge: fieldIs,
	},
}

// networkCIDRs finds a CIDR with bits behind those of the network.
func networkCIDRs(s Subject) string {
	list := s.Value.List
	if ask, isField := fields[s.With["field"]]; isField {
		list = ask(s.Service)
	}
	for _, element := range list {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(element)); err == nil && prefix.Masked() != prefix {
			return fmt.Sprintf("name networks by their first addresses; instead of %s write %s", annotation.Quote(element), prefix.Masked())
		}
	}
	return ""
}

// atMostSoMany compares the length of a list, without what occurs twice, with the number of another key.
func atMostSoMany(s Subject) string {
	other, found := s.Other(s.With["key"])
	distinct := slices.Compact(slices.Sorted(slices.Values(s.Value.List)))
	if !found || float64(len(distinct)) <= other.Number {
		return ""
	}
	return fmt.Sprintf("have at most as many elements as %s says, which is %s", s.bindings.expand(s.With["key"]), other.Text)
}

func atMostDistinct(s Subject) string {
	most, err := strconv.Atoi(s.With["max"])
	must(err)
	if distinct := slices.Compact(slices.Sorted(slices.Values(s.Value.List))); len(distinct) > most {
		return fmt.Sprintf("have at most %d elements; it has %d", most, len(distinct))
	}
	return ""
}

func spelled(s Subject) string {
	if word := s.With["as"]; strings.EqualFold(s.Raw, word) && s.Raw != word {
		return "be spelled " + word
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
