//go:build linux

package kernel

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// diff adds to a transaction what turns one ruleset into another. What is unknown of the old one is written again,
// unless it is to stay. Objects are added before what refers to them, and deleted after it.
func diff(tx *knftables.Transaction, from, to *ruleset) {
	d := differ{tx, from, to}
	d.tx.Add(&knftables.Table{})
	d.addObjects()
	d.writeChains()
	d.writeElements()
	d.deleteObjects()
}

type differ struct {
	tx       *knftables.Transaction
	from, to *ruleset
}

// missing returns the names of the objects of a that b does not have.
func missing[A, B any](a map[string]A, b map[string]B) []string {
	var names []string
	for name := range a {
		if _, ok := b[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *differ) addObjects() {
	for _, name := range missing(d.to.counters, d.from.counters) {
		d.tx.Add(&knftables.Counter{Name: name})
	}
	for _, name := range missing(d.to.flows, d.from.flows) {
		f := d.to.flows[name]
		if f.set {
			d.tx.Add(&knftables.Set{Name: name, Type: f.kind, Size: &f.size, Flags: []knftables.SetFlag{knftables.DynamicFlag}})
			continue
		}
		d.tx.Add(&knftables.Map{
			Name: name, Type: f.kind, TypeOf: f.typeof, Timeout: &f.timeout, Size: &f.size,
			Flags: []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag},
		})
	}
	for _, name := range missing(d.to.tables, d.from.tables) {
		if t := d.to.tables[name]; t.set {
			d.tx.Add(&knftables.Set{Name: name, Type: t.kind})
		} else {
			d.tx.Add(&knftables.Map{Name: name, Type: t.kind, TypeOf: t.typeof})
		}
	}
	for _, name := range missing(d.to.chains, d.from.chains) {
		c := &knftables.Chain{Name: name}
		if h := d.to.chains[name].hook; h != nil {
			c.Type = new(knftables.BaseChainType(h.kind))
			c.Hook = new(knftables.BaseChainHook(h.at))
			c.Priority = new(knftables.BaseChainPriority(strconv.Itoa(h.priority)))
		}
		d.tx.Add(c)
	}
}

func (d *differ) writeChains() {
	for _, name := range slices.Sorted(maps.Keys(d.to.chains)) {
		c, old := d.to.chains[name], d.from.chains[name]
		if old == c || old != nil && !old.unknown() && slices.Equal(old.rules, c.rules) {
			continue
		}
		if old != nil {
			d.tx.Flush(&knftables.Chain{Name: name})
		}
		for _, rule := range c.rules {
			d.tx.Add(&knftables.Rule{Chain: name, Rule: rule})
		}
	}
}

func (d *differ) writeElements() {
	for _, name := range slices.Sorted(maps.Keys(d.to.tables)) {
		t, old := d.to.tables[name], d.from.tables[name]
		if old == t {
			continue
		}
		var before map[string]string
		if old != nil {
			before = old.elements
			if old.unknown() {
				d.flush(name, t)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if value, ok := t.elements[key]; !ok || value != before[key] {
				d.tx.Delete(element(name, t, key, before[key]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(t.elements)) {
			if value, ok := before[key]; !ok || value != t.elements[key] {
				d.tx.Add(element(name, t, key, t.elements[key]))
			}
		}
	}
}

func (d *differ) flush(name string, t *table) {
	if t.set {
		d.tx.Flush(&knftables.Set{Name: name})
	} else {
		d.tx.Flush(&knftables.Map{Name: name})
	}
}

func element(name string, t *table, key, value string) *knftables.Element {
	if t.set {
		return &knftables.Element{Set: name, Key: []string{key}}
	}
	return &knftables.Element{Map: name, Key: []string{key}, Value: []string{value}}
}

func (d *differ) deleteObjects() {
	chains := missing(d.from.chains, d.to.chains)
	for _, name := range chains {
		d.tx.Flush(&knftables.Chain{Name: name})
	}
	for _, name := range chains {
		d.tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range missing(d.from.tables, d.to.tables) {
		if d.from.tables[name].set {
			d.tx.Delete(&knftables.Set{Name: name})
		} else {
			d.tx.Delete(&knftables.Map{Name: name})
		}
	}
	for _, name := range missing(d.from.flows, d.to.flows) {
		if d.from.flows[name].set {
			d.tx.Delete(&knftables.Set{Name: name})
			continue
		}
		d.tx.Delete(&knftables.Map{Name: name})
	}
	for _, name := range missing(d.from.counters, d.to.counters) {
		d.tx.Delete(&knftables.Counter{Name: name})
	}
}

// found returns the ruleset of which only the names of the objects are known, by kind.
func found(names map[string][]string) *ruleset {
	r := newRuleset()
	for _, name := range names["chain"] {
		r.chains[name] = &chain{}
	}
	for _, name := range names["set"] {
		if strings.HasPrefix(name, shareSet) {
			r.flows[name] = flowMap{set: true}
			continue
		}
		r.tables[name] = &table{set: true}
	}
	for _, name := range names["map"] {
		if strings.HasPrefix(name, "flows/") {
			r.flows[name] = flowMap{}
			continue
		}
		r.tables[name] = &table{}
	}
	for _, name := range names["counter"] {
		r.counters[name] = true
	}
	return r
}
