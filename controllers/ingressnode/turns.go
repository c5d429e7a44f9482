package ingressnode

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// turns decides which group is synced first: namespaces take turns, and so do the groups of each.
type turns struct {
	// last has the number of the last turn of each group.
	last map[string]int
	now  int
}

// took notes that a group has had its turn.
func (t *turns) took(group string) {
	t.now++
	t.last[group] = t.now
}

// order returns the groups in the order of their turns. asked has the namespaces that ask for each group. The one whose
// groups have waited longest comes first; a group that several ask for comes as early as the first of them.
func (t *turns) order(groups []string, asked map[string]sets.Set[string]) []string {
	groups = slices.Clone(groups)
	slices.Sort(groups)
	groups = slices.Compact(groups)
	maps.DeleteFunc(t.last, func(group string, _ int) bool { return !slices.Contains(groups, group) })
	namespaces := map[string]int{}
	for group, last := range t.last {
		for namespace := range asked[group] {
			namespaces[namespace] = max(namespaces[namespace], last)
		}
	}
	turn := make(map[string]int, len(groups))
	for _, group := range groups {
		turn[group] = t.last[group]
		for i, namespace := range asked[group].UnsortedList() {
			if i == 0 || namespaces[namespace] < turn[group] {
				turn[group] = namespaces[namespace]
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b string) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), cmp.Compare(t.last[a], t.last[b]))
	})
	return groups
}
