package check

import (
	"fmt"
	"slices"
)

var baiduFuncs = map[string]Func{
	"at-most-where": {
		Help:  "The number is at most max if another key has a certain value.",
		Args:  []string{"key", "is", "max"},
		Check: atMostWhere,
	},
}

func atMostWhere(s Subject) string {
	other, found := s.Other(s.With["key"])
	if !found || !slices.Contains(other.List, s.With["is"]) || s.Value.Number <= s.most() {
		return ""
	}
	return fmt.Sprintf("be at most %s if %s is %s", s.With["max"], s.View.Expand(s.With["key"]), s.With["is"])
}
