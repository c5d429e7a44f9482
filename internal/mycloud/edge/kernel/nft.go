//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/program"
)

// nftTimeout limits one call of nft. The first one, with thousands of listeners on a busy machine, takes seconds.
const nftTimeout = 30 * time.Second

// firewall writes rulesets to the kernel.
type firewall struct {
	renderer renderer
	// applied is what is in the kernel; nil if that has to be read first. It has, beside what is wanted, what packets that
	// are on their way may still need.
	applied, wanted *ruleset
	// services are those of the applied ruleset.
	services map[serviceID]*service
	// timeouts are the names of those that exist.
	timeouts map[string]bool
}

// apply makes the kernel's table do what the plan says. A service that nftables refuses is a fault, and stays as it was.
func (f *firewall) apply(ctx context.Context, p *plan) ([]cloudv1.EdgeFault, error) {
	fresh := f.applied == nil
	err := f.write(ctx, p.services, p)
	if err == nil {
		return nil, nil
	}
	// What is in the table is not known: nft was killed, or the table was changed by another program.
	f.applied = nil
	if hangs(ctx, err) {
		return nil, err
	}
	if !fresh {
		if f.write(ctx, p.services, p) == nil {
			return nil, nil
		}
	}
	refused := f.refused(ctx, p, f.changed(p.services))
	if len(refused) == 0 {
		return nil, err
	}
	var faults []cloudv1.EdgeFault
	services := slices.Clone(p.services)
	services = slices.DeleteFunc(services, func(s *service) bool { return refused[s.id] != nil && f.services[s.id] == nil })
	for i, s := range services {
		if refused[s.id] != nil {
			services[i] = f.services[s.id]
		}
	}
	for _, s := range p.services {
		if err := refused[s.id]; err != nil {
			faults = append(faults, s.id.fault("nftables refuses the rules: %s", firstLine(err)))
		}
	}
	return faults, f.write(ctx, services, p)
}

// hangs reports whether an error says nothing about the rules.
func hangs(ctx context.Context, err error) bool {
	return errors.Is(err, program.ErrLimit) || ctx.Err() != nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return line
}

// write turns the kernel's table into that of the services.
//
// A transaction is not one moment for a packet on its way: it stays with the rules that it has begun with, but each map
// that they look into has its new elements. So the first transaction adds what will be referred to, and the second one
// refers to it. What was referred to before is removed by the first transaction of the next call, when the packets that
// have met it are gone.
func (f *firewall) write(ctx context.Context, services []*service, p *plan) error {
	to := f.renderer.render(services, p.addresses)
	if err := f.addTimeouts(ctx, to.timeouts); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	was, same := f.wanted, false
	for _, next := range []*ruleset{was.with(to), to.with(was)} {
		tx := transaction(f.applied, next)
		// The table itself is always part of the transaction.
		if same = tx.NumOperations() == 1; !same {
			if err := nft(ctx, tx.String()); err != nil {
				return fmt.Errorf("write rules: %w", err)
			}
		}
		f.applied = next
	}
	f.wanted, f.services = to, byID(services)
	if same {
		return f.verify()
	}
	return nil
}

// errChanged is returned for a table that another program has changed.
var errChanged = errors.New("another program has changed the rules")

// verify returns an error if the kernel's table lacks rules, or elements of the maps that lead to them.
func (f *firewall) verify() error {
	rules, err := countRules()
	if err != nil {
		return err
	}
	for name, c := range f.applied.chains {
		if !c.unknown() && rules[name] != len(c.rules) {
			return fmt.Errorf("%w: chain %s has %d rules instead of %d", errChanged, name, rules[name], len(c.rules))
		}
	}
	for name, t := range f.applied.tables {
		// Those of places are many, and no other program knows them.
		if t.unknown() || strings.Contains(name, "/") {
			continue
		}
		elements, err := countElements(name)
		if err != nil {
			return err
		}
		if elements != len(t.elements) {
			return fmt.Errorf("%w: %s has %d elements instead of %d", errChanged, name, elements, len(t.elements))
		}
	}
	return nil
}

// transaction returns what turns one ruleset into another. The library would run nft without a limit of time, so that it
// only writes the text.
func transaction(from, to *ruleset) *knftables.Transaction {
	tx := knftables.NewFake(knftables.InetFamily, tableName).NewTransaction()
	diff(tx, from, to)
	return tx
}

// nft runs a script.
func nft(ctx context.Context, script string, options ...string) error {
	_, err := program.Run(ctx, nftTimeout, script, append(append([]string{"nft"}, options...), "-f", "-")...)
	return err
}

func byID(services []*service) map[serviceID]*service {
	m := make(map[serviceID]*service, len(services))
	for _, s := range services {
		m[s.id] = s
	}
	return m
}

// read finds out what is in the kernel's table, unless that is known.
func (f *firewall) read() error {
	if f.applied != nil {
		return nil
	}
	names, err := list()
	if err != nil {
		return err
	}
	f.applied = found(names)
	f.wanted = f.applied
	return nil
}

// addTimeouts adds timeouts of conntrack, for which the library has no type.
func (f *firewall) addTimeouts(ctx context.Context, timeouts map[string]timeout) error {
	added := missing(timeouts, f.timeouts)
	if len(added) == 0 {
		return nil
	}
	var script strings.Builder
	fmt.Fprintf(&script, "add table inet %s\n", tableName)
	for _, name := range added {
		t := timeouts[name]
		fmt.Fprintf(&script, "add ct timeout inet %s %s { protocol %s ; l3proto %s ; policy = { %s } ; }\n",
			tableName, name, t.protocol, t.family, t.policy)
	}
	if err := nft(ctx, script.String()); err != nil {
		return fmt.Errorf("add timeouts: %w", err)
	}
	if f.timeouts == nil {
		f.timeouts = map[string]bool{}
	}
	for _, name := range added {
		f.timeouts[name] = true
	}
	return nil
}

// changed returns the services that differ from what was applied.
func (f *firewall) changed(services []*service) []*service {
	var changed []*service
	for _, s := range services {
		if old := f.services[s.id]; old == nil || !old.equal(s) {
			changed = append(changed, s)
		}
	}
	return changed
}

// refused returns the services whose rules nftables does not accept, with its reason, by trying halves of them.
func (f *firewall) refused(ctx context.Context, p *plan, candidates []*service) map[serviceID]error {
	if len(candidates) == 0 {
		return nil
	}
	services := maps.Clone(f.services)
	if services == nil {
		services = map[serviceID]*service{}
	}
	for _, s := range candidates {
		services[s.id] = s
	}
	err := f.check(ctx, slices.Collect(maps.Values(services)), p)
	if err == nil || hangs(ctx, err) {
		return nil
	}
	if len(candidates) == 1 {
		return map[serviceID]error{candidates[0].id: err}
	}
	half := len(candidates) / 2
	refused := f.refused(ctx, p, candidates[:half])
	if refused == nil {
		refused = map[serviceID]error{}
	}
	maps.Copy(refused, f.refused(ctx, p, candidates[half:]))
	return refused
}

func (f *firewall) check(ctx context.Context, services []*service, p *plan) error {
	renderer := f.renderer
	to := renderer.render(services, p.addresses)
	if err := f.addTimeouts(ctx, to.timeouts); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	return nft(ctx, transaction(f.applied, to).String(), "--check")
}

// counters returns what the rules have counted.
func (f *firewall) counters() ([]cloudv1.ListenerCounter, error) {
	if len(f.services) == 0 {
		return nil, nil
	}
	counts, err := readCounters()
	if err != nil {
		return nil, err
	}
	if len(counts) == 0 {
		f.applied = nil
		return nil, errors.New("read counters: the table is gone")
	}
	var list []cloudv1.ListenerCounter
	for _, s := range f.services {
		id := s.id.String()
		traffic, refused, accepted := counts["traffic/"+id], counts["refused/"+id], counts["accepted/"+id]
		if accepted == nil {
			accepted = traffic
		}
		if traffic == nil || refused == nil {
			continue
		}
		list = append(list, cloudv1.ListenerCounter{
			LoadBalancerID: s.id.loadBalancer, ListenerKey: s.id.key, Family: s.id.family,
			Accepted: accepted.Packets, Refused: refused.Packets, BytesIn: traffic.Bytes,
		})
	}
	slices.SortFunc(list, func(a, b cloudv1.ListenerCounter) int {
		return strings.Compare(
			serviceID{a.LoadBalancerID, a.ListenerKey, a.Family}.String(),
			serviceID{b.LoadBalancerID, b.ListenerKey, b.Family}.String())
	})
	return list, nil
}
