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
	// asked has the namespaces that asked for each group last: what they leave behind is still theirs.
	asked map[string]sets.Set[string]
}

func newTurns() turns { return turns{last: map[string]int{}, asked: map[string]sets.Set[string]{}} }

// namespace returns the only namespace that asked for a group, or "".
func (t *turns) namespace(group string) string {
	if len(t.asked[group]) != 1 {
		return ""
	}
	return t.asked[group].UnsortedList()[0]
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
	maps.DeleteFunc(t.asked, func(group string, _ sets.Set[string]) bool { return !slices.Contains(groups, group) })
	for _, group := range groups {
		if len(asked[group]) > 0 {
			t.asked[group] = asked[group]
		}
	}
	namespaces := map[string]int{}
	for group, last := range t.last {
		for namespace := range t.asked[group] {
			namespaces[namespace] = max(namespaces[namespace], last)
		}
	}
	turn := make(map[string]int, len(groups))
	for _, group := range groups {
		turn[group] = t.last[group]
		for i, namespace := range t.asked[group].UnsortedList() {
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
