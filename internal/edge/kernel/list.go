//go:build linux

package kernel

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// The program nft reads all elements of all maps before it lists anything, which takes minutes with many flows. So what
// is in the kernel is read by netlink.

func ownTable() *nftables.Table {
	return &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
}

// list returns the names of what is in the engine's table, which need not exist, by kind.
func list() (map[string][]string, error) {
	names := map[string][]string{}
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == tableName }) {
		return names, nil
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == tableName {
			names["chain"] = append(names["chain"], c.Name)
		}
	}
	sets, err := conn.GetSets(ownTable())
	if err != nil {
		return nil, fmt.Errorf("list sets: %w", err)
	}
	for _, s := range sets {
		kind := "set"
		if s.IsMap {
			kind = "map"
		}
		// Anonymous sets are parts of rules.
		if !s.Anonymous {
			names[kind] = append(names[kind], s.Name)
		}
	}
	counters, err := readCounters()
	if err != nil {
		return nil, err
	}
	for name := range counters {
		names["counter"] = append(names["counter"], name)
	}
	return names, nil
}

// decoding is held while the library decodes objects: it writes all timeouts into two maps of its own package. An agent
// has one engine, which locks itself, but a program may have several.
var decoding sync.Mutex

// readCounters returns the counters of the engine's table, which need not exist.
func readCounters() (map[string]*expr.Counter, error) {
	decoding.Lock()
	defer decoding.Unlock()
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	objects, err := conn.GetNamedObjects(ownTable())
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	counters := map[string]*expr.Counter{}
	for _, o := range objects {
		if named, ok := o.(*nftables.NamedObj); ok {
			if counter, ok := named.Obj.(*expr.Counter); ok {
				counters[named.Name] = counter
			}
		}
	}
	return counters, nil
}
