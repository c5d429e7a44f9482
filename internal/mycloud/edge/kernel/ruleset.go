//go:build linux

package kernel

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

// tableName is the name of the table, of family inet, that has all objects of the engine.
const tableName = "mycloud-edge"

// ruleset is the content of the engine's table: objects by name.
type ruleset struct {
	chains map[string]*chain
	// tables are maps and sets whose elements the engine writes.
	tables map[string]*table
	// flows are maps and sets whose elements the rules write.
	flows    map[string]flowMap
	counters map[string]bool
	// timeouts are the timeouts of conntrack. They are not removed: there are as many as different values.
	timeouts map[string]timeout
}

type chain struct {
	// hook is set for base chains.
	hook  *hook
	rules []string
}

type hook struct {
	kind, at string
	priority int
}

// table is a map or, if its values are empty, a set.
type table struct {
	// kind is what nftables calls the type; typeof is used instead where a type has no name.
	kind, typeof string
	set          bool
	elements     map[string]string
}

type flowMap struct {
	kind, typeof string
	// set is true for a set. Its elements have no timeout.
	set     bool
	timeout time.Duration
	size    uint64
}

type timeout struct {
	protocol, family string
	policy           string
}

// unknown is a ruleset's chain or table of which only the name is known.
func (c *chain) unknown() bool { return c.rules == nil && c.hook == nil }
func (t *table) unknown() bool { return t.elements == nil }

func newRuleset() *ruleset {
	return &ruleset{
		chains: map[string]*chain{}, tables: map[string]*table{}, flows: map[string]flowMap{}, counters: map[string]bool{},
		timeouts: map[string]timeout{},
	}
}

// with returns the ruleset with what only another one has. The tables that lead to listeners stay as they are.
func (r *ruleset) with(other *ruleset) *ruleset {
	both := &ruleset{
		chains: union(r.chains, other.chains), tables: union(r.tables, other.tables), flows: union(r.flows, other.flows),
		counters: union(r.counters, other.counters), timeouts: r.timeouts,
	}
	for _, suffix := range []string{"4", "6"} {
		name := targetMap + suffix
		if a, b := r.tables[name], other.tables[name]; a != nil && b != nil && !a.unknown() {
			t := *a
			t.elements = union(a.elements, b.elements)
			both.tables[name] = &t
		}
	}
	return both
}

// union returns the elements of a, and those that only b has.
func union[V any](a, b map[string]V) map[string]V {
	both := make(map[string]V, len(a)+len(b))
	maps.Copy(both, b)
	maps.Copy(both, a)
	return both
}

func (r *ruleset) chain(name string, rules ...string) {
	r.chains[name] = &chain{rules: rules}
}

// shared adds a chain that is named after its content, and returns the name. Equal chains are one chain, and no chain
// ever changes: listeners are pointed to another.
func (r *ruleset) shared(prefix string, rules ...string) string {
	name := prefix + "/" + digest(strings.Join(rules, "\n"))
	r.chain(name, rules...)
	return name
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("%x", sum[:8])
}
