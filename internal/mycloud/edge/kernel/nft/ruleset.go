//go:build linux

package nft

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

// TableName is the name of the table, of family inet, that has all objects of an edge.
const TableName = "mycloud-edge"

// Ruleset is the content of the table: objects by name.
type Ruleset struct {
	Chains map[string]*Chain
	// Maps are maps and sets whose elements the edge writes.
	Maps map[string]*Map
	// Flows are maps and sets whose elements the rules write.
	Flows    map[string]Flows
	Counters map[string]bool
	// Timeouts are the timeouts of conntrack. They are not removed: there are as many as different values.
	Timeouts map[string]Timeout
}

// Chain is a list of rules. Without rules and hook, only its name is known.
type Chain struct {
	// Hook is set for base chains.
	Hook  *Hook
	Rules []string
}

// Hook is where in the kernel a base chain is called.
type Hook struct {
	Type, At string
	Priority int
}

// Map is a map or, if Set is true, a set.
type Map struct {
	// Type is what nftables calls the type; TypeOf is used instead where a type has no name.
	Type, TypeOf string
	Set          bool
	// Elements are nil if only the name is known. The values of a set are empty.
	Elements map[string]string
	// Lasting is true if packets on their way may need elements that are not wanted any more.
	Lasting bool
}

// Flows is a map whose elements have a timeout or, if Set is true, a set whose elements have none.
type Flows struct {
	Type, TypeOf string
	Set          bool
	Timeout      time.Duration
	Size         uint64
}

// Timeout is a policy of conntrack.
type Timeout struct {
	Protocol, Family string
	Policy           string
}

func (c *Chain) unknown() bool { return c.Rules == nil && c.Hook == nil }
func (m *Map) unknown() bool   { return m.Elements == nil }

// NewRuleset returns a ruleset without objects.
func NewRuleset() *Ruleset {
	return &Ruleset{
		Chains: map[string]*Chain{}, Maps: map[string]*Map{}, Flows: map[string]Flows{}, Counters: map[string]bool{},
		Timeouts: map[string]Timeout{},
	}
}

// with returns the ruleset with the objects that only another one has, and its elements of lasting maps.
func (r *Ruleset) with(other *Ruleset) *Ruleset {
	both := &Ruleset{
		Chains: union(r.Chains, other.Chains), Maps: union(r.Maps, other.Maps), Flows: union(r.Flows, other.Flows),
		Counters: union(r.Counters, other.Counters), Timeouts: r.Timeouts,
	}
	for name, m := range r.Maps {
		if old := other.Maps[name]; m.Lasting && old != nil {
			merged := *m
			merged.Elements = union(m.Elements, old.Elements)
			both.Maps[name] = &merged
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

// AddChain adds a chain that no hook calls.
func (r *Ruleset) AddChain(name string, rules ...string) {
	r.Chains[name] = &Chain{Rules: rules}
}

// Share adds a chain that is named after its content, and returns the name. Equal chains are one chain, and no chain
// ever changes: listeners are pointed to another.
func (r *Ruleset) Share(prefix string, rules ...string) string {
	name := prefix + "/" + Digest(strings.Join(rules, "\n"))
	r.AddChain(name, rules...)
	return name
}

// Digest returns a short name for content.
func Digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("%x", sum[:8])
}
