//go:build linux

package nft

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"quaymaster.dev/internal/mycloud/edge/program"
)

// timeLimit limits one call of nft. The first one, with thousands of listeners on a busy machine, takes seconds.
const timeLimit = 30 * time.Second

// Table is the table in the kernel. The zero Table reads what is there before it writes.
type Table struct {
	// applied is what is in the kernel; nil if that has to be read first. It has, beside what is wanted, what packets that
	// are on their way may still need.
	applied, wanted *Ruleset
	// timeouts are the names of those that exist.
	timeouts map[string]bool
}

// Known reports whether it is known what is in the kernel.
func (t *Table) Known() bool { return t.applied != nil }

// Forget has the table read again what is in the kernel: a write has failed, or another program has changed the table.
func (t *Table) Forget() { t.applied = nil }

// Write turns the content of the table into a ruleset.
//
// A transaction is not one moment for a packet on its way: it stays with the rules that it has begun with, but each map
// that they look into has its new elements. So the first transaction adds what will be referred to, and the second one
// refers to it. What was referred to before is removed by the first transaction of the next call, when the packets that
// have met it are gone.
func (t *Table) Write(ctx context.Context, to *Ruleset) error {
	if err := t.prepare(ctx, to); err != nil {
		return err
	}
	was, same := t.wanted, false
	for _, next := range []*Ruleset{was.with(to), to.with(was)} {
		script, needed := Script(t.applied, next)
		if needed {
			if err := run(ctx, script); err != nil {
				return fmt.Errorf("write rules: %w", err)
			}
		}
		t.applied, same = next, !needed
	}
	t.wanted = to
	if same {
		return t.verify()
	}
	return nil
}

// Check returns the error of nftables about a ruleset. It changes no rule.
func (t *Table) Check(ctx context.Context, to *Ruleset) error {
	if err := t.prepare(ctx, to); err != nil {
		return err
	}
	script, _ := Script(t.applied, to)
	return run(ctx, script, "--check")
}

// Counters returns what the rules have counted, by the name of the counter.
func (t *Table) Counters() (map[string]*expr.Counter, error) {
	counts, err := readCounters()
	if err != nil {
		return nil, err
	}
	if len(counts) == 0 {
		t.Forget()
		return nil, errors.New("read counters: the table is gone")
	}
	return counts, nil
}

// prepare adds the timeouts of a ruleset, and finds out what is in the table unless that is known.
func (t *Table) prepare(ctx context.Context, to *Ruleset) error {
	if err := t.addTimeouts(ctx, to.Timeouts); err != nil {
		return err
	}
	if t.applied != nil {
		return nil
	}
	found, err := list()
	if err != nil {
		return err
	}
	t.applied, t.wanted = found, found
	return nil
}

// addTimeouts adds timeouts of conntrack, for which the library has no type.
func (t *Table) addTimeouts(ctx context.Context, timeouts map[string]Timeout) error {
	added := missing(timeouts, t.timeouts)
	if len(added) == 0 {
		return nil
	}
	var script strings.Builder
	fmt.Fprintf(&script, "add table inet %s\n", TableName)
	for _, name := range added {
		timeout := timeouts[name]
		fmt.Fprintf(&script, "add ct timeout inet %s %s { protocol %s ; l3proto %s ; policy = { %s } ; }\n",
			TableName, name, timeout.Protocol, timeout.Family, timeout.Policy)
	}
	if err := run(ctx, script.String()); err != nil {
		return fmt.Errorf("add timeouts: %w", err)
	}
	if t.timeouts == nil {
		t.timeouts = map[string]bool{}
	}
	for _, name := range added {
		t.timeouts[name] = true
	}
	return nil
}

// errChanged is returned for a table that another program has changed.
var errChanged = errors.New("another program has changed the rules")

// verify returns an error if the table lacks rules, or elements of the maps that lead to them.
func (t *Table) verify() error {
	rules, err := countRules()
	if err != nil {
		return err
	}
	for name, c := range t.applied.Chains {
		if !c.unknown() && rules[name] != len(c.Rules) {
			return fmt.Errorf("%w: chain %s has %d rules instead of %d", errChanged, name, rules[name], len(c.Rules))
		}
	}
	for name, m := range t.applied.Maps {
		// Those that are named after their content are many, and no other program knows them.
		if m.unknown() || strings.Contains(name, "/") {
			continue
		}
		elements, err := countElements(name)
		if err != nil {
			return err
		}
		if elements != len(m.Elements) {
			return fmt.Errorf("%w: %s has %d elements instead of %d", errChanged, name, elements, len(m.Elements))
		}
	}
	return nil
}

// run has nft execute a script.
func run(ctx context.Context, script string, options ...string) error {
	_, err := program.Run(ctx, timeLimit, script, append(append([]string{"nft"}, options...), "-f", "-")...)
	return err
}
