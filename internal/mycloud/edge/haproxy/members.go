package haproxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// place is a server of a backend.
type place struct {
	backend, server string
}

func (p place) String() string { return p.backend + "/" + p.server }

// present is a server that a worker has.
type present struct {
	id     uint32
	weight int
	// disabled is true for a server that was about to be removed, or was not added completely.
	disabled bool
	checked  bool
}

// checksConfigured is the bit of srv_check_state that a server with health checks has.
const checksConfigured = 2

// reconcile makes the servers of the worker those of the plan, and returns what HAProxy refuses. Servers that are in no
// pool any more get no new connections, and are removed when they have none or their time to drain is over.
func (e *Engine) reconcile(ctx context.Context, worker int, p *plan.Plan) ([]cloudv1.EdgeFault, error) {
	servers, err := e.servers(ctx, worker)
	if err != nil {
		return nil, err
	}
	var faults []cloudv1.EdgeFault
	// fault returns errors that do not belong to one member.
	fault := func(b *plan.Backend, err error) error {
		if _, ok := errors.AsType[*process.CommandError](err); ok {
			faults = append(faults, b.Unit.Fault(err))
			return nil
		}
		return err
	}
	wanted := map[string]map[string]bool{}
	for i := range p.Backends {
		b := &p.Backends[i]
		wanted[b.Name] = make(map[string]bool, len(b.Servers))
		has := servers[b.Name]
		ids := make(map[uint32]bool, len(has))
		for _, s := range has {
			ids[s.id] = true
		}
		for _, s := range b.Servers {
			wanted[b.Name][s.Name] = true
			delete(e.leaving, place{b.Name, s.Name})
			if ids[s.ID] {
				// A server that leaves has the number: this edge sends clients elsewhere than others until its next reload.
				s.ID = 0
			}
			if err := fault(b, e.put(ctx, worker, b, &s, has)); err != nil {
				return nil, err
			}
		}
		for name, s := range has {
			at := place{b.Name, name}
			if _, ok := e.leaving[at]; ok || wanted[b.Name][name] {
				continue
			}
			if err := fault(b, e.weigh(ctx, worker, at, s, 0)); err != nil {
				return nil, err
			}
			e.leaving[at] = e.Clock.Now().Add(b.Pool.Drain)
		}
	}
	return faults, nil
}

// put adds a server to its backend, or changes its weight.
func (e *Engine) put(ctx context.Context, worker int, b *plan.Backend, s *plan.Server, servers map[string]present) error {
	at := place{b.Name, s.Name}
	has, ok := servers[s.Name]
	if !ok {
		return e.add(ctx, worker, b, s)
	}
	if has.disabled {
		command := fmt.Sprintf("set server %s state ready", at)
		if b.Monitor != nil {
			command += fmt.Sprintf(";enable health %s", at)
		}
		if err := e.haproxy.Do(ctx, worker, command); err != nil {
			return err
		}
	}
	return e.weigh(ctx, worker, at, has, s.Weight)
}

func (e *Engine) add(ctx context.Context, worker int, b *plan.Backend, s *plan.Server) error {
	at := place{b.Name, s.Name}.String()
	commands := []string{"add server " + b.Name + "/" + s.Line(), "enable server " + at}
	if b.Monitor != nil {
		commands = append(commands, "enable health "+at)
	}
	answer, err := e.haproxy.Command(ctx, worker, strings.Join(commands, ";"), "")
	if err == nil && answer != "New server registered." {
		err = &process.CommandError{Command: "add server " + at, Answer: answer}
	}
	return err
}

// weigh changes the weight of a server, which gets no new connections with 0.
func (e *Engine) weigh(ctx context.Context, worker int, at place, s present, weight int) error {
	if s.weight == weight {
		return nil
	}
	return e.haproxy.Do(ctx, worker, fmt.Sprintf("set server %s weight %d", at, weight))
}

// remove removes a server, and ends its connections.
func (e *Engine) remove(ctx context.Context, worker int, at place) error {
	// Maintenance ends the connections of servers that are checked.
	answer, err := e.haproxy.Command(ctx, worker,
		fmt.Sprintf("set server %[1]s state maint;shutdown sessions server %[1]s;del server %[1]s", at), "")
	if err != nil {
		return fmt.Errorf("del server: %w", err)
	}
	if strings.Contains(answer, "Server deleted.") {
		delete(e.leaving, at)
	}
	// Otherwise its connections are about to end; the next time it succeeds.
	return nil
}

// servers returns the servers that a worker has, by backend and name.
func (e *Engine) servers(ctx context.Context, worker int) (map[string]map[string]present, error) {
	answer, err := e.haproxy.Command(ctx, worker, "show servers state", "")
	if err != nil {
		return nil, fmt.Errorf("show servers state: %w", err)
	}
	return parseServers(answer)
}

// sizes returns the sizes of the backends of a worker by name.
func (e *Engine) sizes(ctx context.Context, worker int) (map[string]plan.Size, error) {
	servers, err := e.servers(ctx, worker)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]plan.Size, len(servers))
	for backend, has := range servers {
		size := plan.Size{Members: len(has), Servers: make(map[string]bool, len(has))}
		for name, s := range has {
			size.Checked = size.Checked || s.checked
			size.Servers[name] = true
		}
		sizes[backend] = size
	}
	return sizes, nil
}

func parseServers(answer string) (map[string]map[string]present, error) {
	columns := map[string]int{}
	servers := map[string]map[string]present{}
	for line := range strings.Lines(answer) {
		fields := strings.Fields(strings.TrimPrefix(line, "#"))
		switch {
		case strings.HasPrefix(line, "#"):
			for i, name := range fields {
				columns[name] = i
			}
			continue
		case len(fields) < 8:
			continue
		}
		weight, err := strconv.Atoi(fields[columns["srv_uweight"]])
		id, err2 := strconv.ParseUint(fields[columns["srv_id"]], 10, 32)
		checks, err3 := strconv.ParseUint(fields[columns["srv_check_state"]], 10, 8)
		if err != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("show servers state: unexpected line %q", line)
		}
		backend := fields[columns["be_name"]]
		if servers[backend] == nil {
			servers[backend] = map[string]present{}
		}
		servers[backend][fields[columns["srv_name"]]] = present{
			id: uint32(id), weight: weight, disabled: fields[columns["srv_admin_state"]] != "0",
			checked: checks&checksConfigured != 0,
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("show servers state: unexpected answer %.100q", answer)
	}
	return servers, nil
}
