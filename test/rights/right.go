// Package rights compares what RBAC grants to ServiceAccounts with what they did, by the API server's audit log.
package rights

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Right is to do one thing with objects of one resource.
type Right struct {
	// Account is the ServiceAccount, as namespace/name.
	Account string
	Verb    string
	Group   string
	// Resource has its subresource, as in pods/status.
	Resource string
	// Name is empty for all objects.
	Name string
	// Namespace is empty for all of them, and for what is in none.
	Namespace string
}

func (r Right) String() string {
	text := r.Account + ": " + r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += fmt.Sprintf(" %q", r.Name)
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// covers tells whether the right is enough for a use.
func (r Right) covers(use Right) bool {
	all := use
	all.Name, all.Namespace = r.Name, r.Namespace
	return r == all && (r.Name == "" || r.Name == use.Name) && (r.Namespace == "" || r.Namespace == use.Namespace)
}

// Unused are those of the rights granted that no use needed.
func Unused(granted, used sets.Set[Right]) []Right {
	return sorted(granted, func(right Right) bool { return !anyOf(used, right.covers) })
}

// Beyond are the uses that no right granted is enough for.
func Beyond(granted, used sets.Set[Right]) []Right {
	return sorted(used, func(use Right) bool {
		return !anyOf(granted, func(right Right) bool { return right.covers(use) })
	})
}

func anyOf(set sets.Set[Right], is func(Right) bool) bool {
	for right := range set {
		if is(right) {
			return true
		}
	}
	return false
}

func sorted(set sets.Set[Right], keep func(Right) bool) []Right {
	var kept []Right
	for right := range set {
		if keep(right) {
			kept = append(kept, right)
		}
	}
	slices.SortFunc(kept, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	return kept
}
