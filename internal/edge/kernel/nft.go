//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// firewall writes rulesets to the kernel.
type firewall struct {
	nft      knftables.Interface
	renderer renderer
	// applied is what is in the kernel; nil if that has to be read first.
	applied *ruleset
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
	if !fresh {
		// The table may have been changed by another program.
		f.applied = nil
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

func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return line
}

// write turns the kernel's table into that of the services, by one transaction.
func (f *firewall) write(ctx context.Context, services []*service, p *plan) error {
	to := f.renderer.render(services, p.addresses, p.proxied)
	if err := f.addTimeouts(ctx, to.timeouts); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	tx := f.nft.NewTransaction()
	diff(tx, f.applied, to)
	// The table itself is always part of the transaction.
	if tx.NumOperations() > 1 {
		if err := f.nft.Run(ctx, tx); err != nil {
			return fmt.Errorf("write rules: %w", err)
		}
	}
	f.applied = to
	f.services = byID(services)
	return nil
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
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("add timeouts: %w: %s", err, strings.TrimSpace(string(out)))
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
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
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
	renderer := renderer{flows: f.renderer.flows, places: f.renderer.places}
	to := renderer.render(services, p.addresses, p.proxied)
	if err := f.addTimeouts(ctx, to.timeouts); err != nil {
		return err
	}
	if err := f.read(); err != nil {
		return err
	}
	tx := f.nft.NewTransaction()
	diff(tx, f.applied, to)
	return f.nft.Check(ctx, tx)
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
