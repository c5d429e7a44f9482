package catalog_test

import (
	"encoding/json"
	"flag"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

var mutations = flag.Int("mutations", 40, "how many changed forms of each catalog to try")

// Users write catalogs, too, and webhooks load them while they run. So a catalog is reported, or it can validate Services.
func TestChangedCatalogsAreReportedOrWork(t *testing.T) {
	each(t, func(t *testing.T, c *library.Catalog) {
		t.Parallel()
		raw, err := json.Marshal(c.Document())
		if err != nil {
			t.Fatal(err)
		}
		services := examplesOf(t, c)
		h := fnv.New64a()
		_, _ = h.Write([]byte(c.Name))
		m := &mutator{Rand: rand.New(rand.NewPCG(1, h.Sum64()))}
		worked := 0
		for range *mutations {
			var tree map[string]any
			if err := json.Unmarshal(raw, &tree); err != nil {
				t.Fatal(err)
			}
			m.words, m.objects = nil, nil
			m.collect(tree)
			for range 1 + m.IntN(3) {
				m.change(tree)
			}
			changed, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if works(t, changed, services) {
				worked++
			}
			if t.Failed() {
				return
			}
		}
		if worked == 0 || worked == *mutations {
			t.Errorf("%d of %d changed catalogs have no problem", worked, *mutations)
		}
	})
}

// works reports whether a catalog has no problems, after having validated Services with it.
func works(t *testing.T, raw []byte, services []*corev1.Service) bool {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v: %s\n%s", p, raw, debug.Stack())
		}
	}()
	var d document.Document
	if json.Unmarshal(raw, &d) != nil || len(d.Problems()) > 0 {
		return false
	}
	set, err := catalog.NewSet(catalog.Options{DefaultClass: true, Catalogs: []string{d.Name}, Library: library.BuiltIn().With(d)})
	if err != nil {
		t.Errorf("%v: %s", err, raw)
		return false
	}
	var before *catalog.Parsed
	for _, svc := range services {
		p := set.Parse(svc)
		p.Validate()
		if before != nil {
			p.Changes(before)
		}
		before = p
	}
	return true
}

// examplesOf returns the Services of the examples of a catalog, and one with all its keys.
func examplesOf(t *testing.T, c *library.Catalog) []*corev1.Service {
	t.Helper()
	var all []*corev1.Service
	add := func(annotations map[string]string) {
		all = append(all, service(t, c, document.Example{Annotations: annotations}))
	}
	every := map[string]string{}
	for _, a := range c.Document().Annotations {
		add(map[string]string{a.Name: a.Valid})
		every[a.Name] = a.Valid
		if a.Invalid != nil {
			add(map[string]string{a.Name: *a.Invalid})
		}
	}
	add(every)
	for _, one := range c.Document().Checks {
		all = append(all, service(t, c, one.Valid), service(t, c, one.Invalid))
	}
	return all
}

// mutator changes documents.
type mutator struct {
	*rand.Rand
	// words and objects are the texts and objects of the document.
	words   []string
	objects []map[string]any
}

func (m *mutator) collect(node any) {
	switch n := node.(type) {
	case string:
		m.words = append(m.words, n)
	case []any:
		for _, child := range n {
			m.collect(child)
		}
	case map[string]any:
		m.objects = append(m.objects, n)
		for _, key := range slices.Sorted(maps.Keys(n)) {
			m.collect(n[key])
		}
	}
}

// odd are values that catalogs hardly have.
var odd = []any{"", "x", "max=many", "min=1", "oneof=", "(", "{port}", "{nosuch}", "{any}{any}", "-1", "10.0.0.0/8", "/", "json", "v1", nil, true, []any{}, map[string]any{}}

func (m *mutator) value() any {
	if m.IntN(2) == 0 {
		return odd[m.IntN(len(odd))]
	}
	return m.words[m.IntN(len(m.words))]
}

// change changes one thing somewhere below a node.
func (m *mutator) change(node any) {
	switch n := node.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(n))
		if len(keys) == 0 {
			return
		}
		key := keys[m.IntN(len(keys))]
		switch child := n[key]; m.IntN(8) {
		case 0:
			delete(n, key)
		case 1:
			// A copy, because an object that contains itself has no end.
			copied, err := json.Marshal(m.objects[m.IntN(len(m.objects))])
			other := map[string]any{}
			if err == nil && json.Unmarshal(copied, &other) == nil {
				maps.Copy(n, other)
			}
		default:
			if isTree(child) && m.IntN(8) > 0 {
				m.change(child)
			} else {
				n[key] = m.value()
			}
		}
	case []any:
		if len(n) == 0 {
			return
		}
		at := m.IntN(len(n))
		if isTree(n[at]) && m.IntN(8) > 0 {
			m.change(n[at])
		} else {
			n[at] = []any{n[m.IntN(len(n))], m.value()}[m.IntN(2)]
		}
	}
}

func isTree(node any) bool {
	switch node.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
