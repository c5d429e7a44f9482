//go:build linux

package nft

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The program nft reads all elements of all maps before it lists anything, which takes minutes with many flows. So what
// is in the kernel is read by netlink.

func ownTable() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
}

// list returns the ruleset of what is in the table, which need not exist. Only the names of the objects are known.
func list() (*Ruleset, error) {
	r := NewRuleset()
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == TableName }) {
		return r, nil
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == TableName {
			r.Chains[c.Name] = &Chain{}
		}
	}
	sets, err := conn.GetSets(ownTable())
	if err != nil {
		return nil, fmt.Errorf("list sets: %w", err)
	}
	for _, s := range sets {
		switch {
		case s.Anonymous:
			// It is part of a rule.
		case s.Dynamic:
			r.Flows[s.Name] = Flows{Set: !s.IsMap}
		default:
			r.Maps[s.Name] = &Map{Set: !s.IsMap}
		}
	}
	counters, err := readCounters()
	if err != nil {
		return nil, err
	}
	for name := range counters {
		r.Counters[name] = true
	}
	return r, nil
}

// countRules returns how many rules each chain of the table has. The library reads one chain at a time.
func countRules() (map[string]int, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET, Version: nl.NFNETLINK_V0})
	request.AddData(nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(TableName)))
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, fmt.Errorf("count rules: %w", err)
	}
	counts := map[string]int{}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, fmt.Errorf("count rules: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.NFTA_RULE_CHAIN {
				counts[nl.BytesToString(a.Value)]++
			}
		}
	}
	return counts, nil
}

// countElements returns how many elements a map or set has.
func countElements(name string) (int, error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, fmt.Errorf("open netlink: %w", err)
	}
	set, err := conn.GetSetByName(ownTable(), name)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	elements, err := conn.GetSetElements(set)
	if err != nil {
		return 0, fmt.Errorf("count elements of %s: %w", name, err)
	}
	return len(elements), nil
}

// decoding is held while the library decodes objects: it writes all timeouts into two maps of its own package. An agent
// has one engine, which locks itself, but a program may have several.
var decoding sync.Mutex

// readCounters returns the counters of the table, which need not exist.
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
