package haproxy

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// sessionsPerCommand keeps commands within what HAProxy reads at once.
const sessionsPerCommand = 100

// expel ends the connections of listeners that are not wanted any more, and those of clients that are no longer in the
// source ranges, whichever worker has them. Before are the units that HAProxy ran; nil if that is not known. If there are
// too many to find them in time, that is a fault of those load balancers, until the next call succeeds.
func (e *Engine) expel(ctx context.Context, p *process.Workers, before map[string]plan.Unit, now *plan.Plan) []cloudv1.EdgeFault {
	listeners := make(map[string]*config.Listener, len(now.Frontends))
	for i := range now.Frontends {
		if f := &now.Frontends[i]; !f.Removed {
			listeners[f.Name] = &f.Listener
		}
	}
	if before == nil {
		// Of whichever load balancer.
		e.unended[""] = true
	}
	for key, u := range before {
		if u.Listener == nil || u.Removed {
			continue
		}
		if l := listeners[key]; l == nil || !slices.Equal(l.Allowed, u.Listener.Allowed) {
			e.unended[u.LoadBalancer()] = true
		}
	}
	if len(e.unended) == 0 {
		return nil
	}
	unwanted := func(s session) bool { return !s.allowed(listeners[s.frontend]) }
	for _, worker := range p.Old {
		// It may have just ended.
		_ = e.end(ctx, worker, unwanted)
	}
	err := e.end(ctx, p.Current, unwanted)
	if err == nil {
		clear(e.unended)
		return nil
	}
	var faults []cloudv1.EdgeFault
	for _, id := range slices.Sorted(maps.Keys(e.unended)) {
		faults = append(faults, cloudv1.EdgeFault{
			LoadBalancerID: id, Detail: fmt.Sprintf("connections that must end go on: %v", err), Pending: true,
		})
	}
	return faults
}

// end ends sessions of a worker. There are shorter commands for those of a server, which old workers refuse.
func (e *Engine) end(ctx context.Context, worker int, unwanted func(session) bool) error {
	answer, err := e.haproxy.Command(ctx, worker, "show sess", "")
	if err != nil {
		return fmt.Errorf("show sess: %w", err)
	}
	var commands []string
	for line := range strings.Lines(answer) {
		if s, ok := parseSession(line); ok && unwanted(s) {
			commands = append(commands, "shutdown session "+s.id)
		}
	}
	for some := range slices.Chunk(commands, sessionsPerCommand) {
		// Sessions that have ended meanwhile are unknown.
		if _, err := e.haproxy.Command(ctx, worker, strings.Join(some, ";"), ""); err != nil {
			return fmt.Errorf("shutdown session: %w", err)
		}
	}
	return nil
}

// session is a connection of a client, or a request of one.
type session struct {
	id, frontend string
	at           place
	source       netip.Addr
}

// parseSession parses a line of "show sess"; ok is false for those that are not sessions of clients.
func parseSession(line string) (s session, ok bool) {
	fields := strings.Fields(line)
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "0x") {
		return s, false
	}
	s.id = strings.TrimSuffix(fields[0], ":")
	for _, field := range fields[1:] {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "src":
			// Addresses of IPv6 have no brackets.
			s.source, _ = netip.ParseAddr(value[:max(strings.LastIndex(value, ":"), 0)])
		case "fe":
			s.frontend = value
		case "be":
			s.at.backend = value
		case "srv":
			s.at.server = value
		}
	}
	return s, s.source.IsValid() && s.frontend != ""
}

// allowed reports whether a listener, or nil if there is none, may have the session.
func (s session) allowed(l *config.Listener) bool {
	return l != nil && (len(l.Allowed) == 0 || slices.ContainsFunc(l.Allowed, func(p netip.Prefix) bool {
		return p.Contains(s.source.Unmap())
	}))
}
