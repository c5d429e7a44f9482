package catalog

import (
	"fmt"
	"slices"
	"strconv"
)

var behavioursOfBaidu = map[string]Behaviour{
	"at-most-where": {
		Help:  "The number is at most max if another key has a certain value.",
		Args:  []string{"key", "is", "max"},
		Judge: atMostWhere,
	},
}

func atMostWhere(s Subject) string {
	other, found := s.Other(s.With["key"])
	most, err := strconv.ParseFloat(s.With["max"], 64)
	must(err)
	if !found || !slices.Contains(other.List, s.With["is"]) || s.Value.Number <= most {
		return ""
	}
	return fmt.Sprintf("be at most %s if %s is %s", s.With["max"], s.bindings.expand(s.With["key"]), s.With["is"])
}
