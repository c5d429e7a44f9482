//go:build linux

package nft

import (
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/knftables"
)

// Script returns what turns one ruleset into another, and whether there is anything to do. What is unknown of the old one is
// written again, unless it is to stay. Objects are added before what refers to them, and deleted after it.
//
// The library would run nft without a limit of time, so that it only writes the text.
func Script(from, to *Ruleset) (script string, needed bool) {
	d := differ{knftables.NewFake(knftables.InetFamily, TableName).NewTransaction(), from, to}
	d.tx.Add(&knftables.Table{})
	d.addObjects()
	d.writeChains()
	d.writeElements()
	d.deleteObjects()
	// The table itself is always part of the transaction.
	return d.tx.String(), d.tx.NumOperations() > 1
}

type differ struct {
	tx       *knftables.Transaction
	from, to *Ruleset
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
	for _, name := range missing(d.to.Counters, d.from.Counters) {
		d.tx.Add(&knftables.Counter{Name: name})
	}
	for _, name := range missing(d.to.Flows, d.from.Flows) {
		f := d.to.Flows[name]
		if f.Set {
			d.tx.Add(&knftables.Set{Name: name, Type: f.Type, TypeOf: f.TypeOf, Size: &f.Size, Flags: []knftables.SetFlag{knftables.DynamicFlag}})
			continue
		}
		d.tx.Add(&knftables.Map{
			Name: name, Type: f.Type, TypeOf: f.TypeOf, Timeout: &f.Timeout, Size: &f.Size,
			Flags: []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag},
		})
	}
	for _, name := range missing(d.to.Maps, d.from.Maps) {
		if m := d.to.Maps[name]; m.Set {
			d.tx.Add(&knftables.Set{Name: name, Type: m.Type})
		} else {
			d.tx.Add(&knftables.Map{Name: name, Type: m.Type, TypeOf: m.TypeOf})
		}
	}
	for _, name := range missing(d.to.Chains, d.from.Chains) {
		c := &knftables.Chain{Name: name}
		if h := d.to.Chains[name].Hook; h != nil {
			c.Type = new(knftables.BaseChainType(h.Type))
			c.Hook = new(knftables.BaseChainHook(h.At))
			c.Priority = new(knftables.BaseChainPriority(strconv.Itoa(h.Priority)))
		}
		d.tx.Add(c)
	}
}

func (d *differ) writeChains() {
	for _, name := range slices.Sorted(maps.Keys(d.to.Chains)) {
		c, old := d.to.Chains[name], d.from.Chains[name]
		if old == c || old != nil && !old.unknown() && slices.Equal(old.Rules, c.Rules) {
			continue
		}
		if old != nil {
			d.tx.Flush(&knftables.Chain{Name: name})
		}
		for _, rule := range c.Rules {
			d.tx.Add(&knftables.Rule{Chain: name, Rule: rule})
		}
	}
}

func (d *differ) writeElements() {
	for _, name := range slices.Sorted(maps.Keys(d.to.Maps)) {
		m, old := d.to.Maps[name], d.from.Maps[name]
		if old == m {
			continue
		}
		var before map[string]string
		if old != nil {
			before = old.Elements
			if old.unknown() {
				d.flush(name, m)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if value, ok := m.Elements[key]; !ok || value != before[key] {
				d.tx.Delete(element(name, m, key, before[key]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(m.Elements)) {
			if value, ok := before[key]; !ok || value != m.Elements[key] {
				d.tx.Add(element(name, m, key, m.Elements[key]))
			}
		}
	}
}

func (d *differ) flush(name string, m *Map) {
	if m.Set {
		d.tx.Flush(&knftables.Set{Name: name})
	} else {
		d.tx.Flush(&knftables.Map{Name: name})
	}
}

func element(name string, m *Map, key, value string) *knftables.Element {
	if m.Set {
		return &knftables.Element{Set: name, Key: []string{key}}
	}
	return &knftables.Element{Map: name, Key: []string{key}, Value: []string{value}}
}

func (d *differ) deleteObjects() {
	chains := missing(d.from.Chains, d.to.Chains)
	for _, name := range chains {
		d.tx.Flush(&knftables.Chain{Name: name})
	}
	for _, name := range chains {
		d.tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range missing(d.from.Maps, d.to.Maps) {
		if d.from.Maps[name].Set {
			d.tx.Delete(&knftables.Set{Name: name})
		} else {
			d.tx.Delete(&knftables.Map{Name: name})
		}
	}
	for _, name := range missing(d.from.Flows, d.to.Flows) {
		if d.from.Flows[name].Set {
			d.tx.Delete(&knftables.Set{Name: name})
			continue
		}
		d.tx.Delete(&knftables.Map{Name: name})
	}
	for _, name := range missing(d.from.Counters, d.to.Counters) {
		d.tx.Delete(&knftables.Counter{Name: name})
	}
}
