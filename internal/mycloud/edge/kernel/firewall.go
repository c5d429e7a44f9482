//go:build linux

package kernel

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel/nft"
	"quaymaster.dev/internal/mycloud/edge/program"
)

// firewall writes rulesets to the kernel.
type firewall struct {
	renderer renderer
	table    nft.Table
	// services are those of the applied ruleset, and owners all that have addresses.
	services map[serviceID]*service
	owners   map[netip.Addr]ownerID
	// overflows are those that were last counted.
	overflows []config.Overflow
}

// apply makes the kernel's table do what the plan says. A service that nftables refuses is a fault, and stays as it was.
func (f *firewall) apply(ctx context.Context, p *plan) ([]cloudv1.EdgeFault, error) {
	fresh := !f.table.Known()
	err := f.write(ctx, p.services, p)
	if err == nil {
		return nil, nil
	}
	// What is in the table is not known: nft was killed, or the table was changed by another program.
	f.table.Forget()
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
func (f *firewall) write(ctx context.Context, services []*service, p *plan) error {
	err := f.table.Write(ctx, f.renderer.render(services, p))
	if err == nil {
		f.services, f.owners = byID(services), p.owners
	}
	return err
}

func byID(services []*service) map[serviceID]*service {
	m := make(map[serviceID]*service, len(services))
	for _, s := range services {
		m[s.id] = s
	}
	return m
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
	return f.table.Check(ctx, renderer.render(services, p))
}

// counters returns what the rules have counted.
func (f *firewall) counters() ([]cloudv1.ListenerCounter, error) {
	f.overflows = nil
	if len(f.owners) == 0 {
		return nil, nil
	}
	counts, err := f.table.Counters()
	if err != nil {
		return nil, err
	}
	counted := map[ownerID]bool{}
	for _, o := range f.owners {
		if !counted[o] {
			counted[o] = true
			f.overflows = append(f.overflows, o.overflow(counts))
		}
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
