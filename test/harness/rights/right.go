// Package rights compares the permissions that RBAC grants to ServiceAccounts with those they used, according to the
// API server's audit log.
package rights

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Right is the permission for one verb on one resource.
type Right struct {
	// Account is the namespace/name of the ServiceAccount.
	Account string
	Verb    string
	Group   string
	// Resource includes the subresource, as in pods/status.
	Resource string
	// Name is empty for all objects.
	Name string
	// Namespace is empty for all namespaces and for cluster-scoped resources.
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

// covers reports whether the permission is sufficient for a use.
func (r Right) covers(use Right) bool {
	all := use
	all.Name, all.Namespace = r.Name, r.Namespace
	return r == all && (r.Name == "" || r.Name == use.Name) && (r.Namespace == "" || r.Namespace == use.Namespace)
}

// Unused returns the granted permissions that no use needed.
func Unused(granted, used sets.Set[Right]) []Right {
	return sorted(granted, func(right Right) bool { return !anyOf(used, right.covers) })
}

// Beyond returns the uses that no granted permission covers.
func Beyond(granted, used sets.Set[Right]) []Right {
	return sorted(used, func(use Right) bool {
		return !use.basic() && !anyOf(granted, func(right Right) bool { return right.covers(use) })
	})
}

// basic reports whether the role system:basic-user of the API server grants the right to all accounts.
func (r Right) basic() bool {
	return r.Verb == "create" && r.Group == "authentication.k8s.io" && r.Resource == "selfsubjectreviews"
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
