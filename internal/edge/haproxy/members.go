package haproxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// place is a server of a backend.
type place struct {
	backend, server string
}

func (p place) String() string { return p.backend + "/" + p.server }

// present is a server that a worker has.
type present struct {
	weight int
	// disabled is true for a server that was about to be removed, or was not added completely.
	disabled bool
}

// reconcile makes the servers of the worker those of the plan. Servers that are in no pool any more get no new
// connections, and are removed when they have none or their time to drain is over.
func (e *Engine) reconcile(ctx context.Context, worker int) error {
	servers, err := e.servers(ctx, worker)
	if err != nil {
		return err
	}
	wanted, backends := map[place]bool{}, map[string]*backend{}
	var failed []error
	for i := range e.plan.backends {
		b := &e.plan.backends[i]
		backends[b.Name] = b
		for j := range b.Servers {
			s := &b.Servers[j]
			at := place{b.Name, s.Name}
			wanted[at] = true
			delete(e.leaving, at)
			if err := e.put(ctx, worker, b, s, servers); err != nil {
				failed = append(failed, err)
			}
		}
	}
	for at, s := range servers {
		b := backends[at.backend]
		if _, ok := e.leaving[at]; ok || wanted[at] || b == nil {
			continue
		}
		if err := e.weigh(ctx, worker, at, s, 0); err != nil {
			failed = append(failed, err)
			continue
		}
		e.leaving[at] = e.Clock.Now().Add(b.pool.Drain)
	}
	for at := range e.leaving {
		if _, ok := servers[at]; !ok {
			delete(e.leaving, at)
		}
	}
	if len(e.leaving) > 0 {
		failed = append(failed, e.sweep(ctx, worker))
	}
	return errors.Join(failed...)
}

// put adds a server to its backend, or changes its weight.
func (e *Engine) put(ctx context.Context, worker int, b *backend, s *server, servers map[place]present) error {
	at := place{b.Name, s.Name}
	has, ok := servers[at]
	if !ok {
		return e.add(ctx, worker, b, s)
	}
	if has.disabled {
		command := fmt.Sprintf("set server %s state ready", at)
		if b.Monitor != nil {
			command += fmt.Sprintf(";enable health %s", at)
		}
		if err := e.do(ctx, worker, command); err != nil {
			return err
		}
	}
	return e.weigh(ctx, worker, at, has, s.Weight)
}

func (e *Engine) add(ctx context.Context, worker int, b *backend, s *server) error {
	at := place{b.Name, s.Name}.String()
	commands := []string{"add server " + b.Name + "/" + s.Line(), "enable server " + at}
	if b.Monitor != nil {
		commands = append(commands, "enable health "+at)
	}
	answer, err := e.master.worker(ctx, worker, strings.Join(commands, ";"), "")
	if err == nil && answer != "New server registered." {
		err = fmt.Errorf("haproxy answers %q", answer)
	}
	if err != nil {
		return fmt.Errorf("add server %s: %w", at, err)
	}
	return nil
}

// weigh changes the weight of a server, which gets no new connections with 0.
func (e *Engine) weigh(ctx context.Context, worker int, at place, s present, weight int) error {
	if s.weight == weight {
		return nil
	}
	return e.do(ctx, worker, fmt.Sprintf("set server %s weight %d", at, weight))
}

// sweep removes the servers that have left, if they have no connections or must not have any longer.
func (e *Engine) sweep(ctx context.Context, worker int) error {
	stats, err := e.stats(ctx, worker, statServers)
	if err != nil {
		return err
	}
	sessions := map[place]string{}
	for _, row := range stats {
		sessions[place{row["pxname"], row["svname"]}] = row["scur"]
	}
	now := e.Clock.Now()
	var failed []error
	for at, deadline := range e.leaving {
		current, ok := sessions[at]
		if !ok {
			delete(e.leaving, at)
			continue
		}
		if current != "0" && now.Before(deadline) {
			continue
		}
		if err := e.remove(ctx, worker, at); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (e *Engine) remove(ctx context.Context, worker int, at place) error {
	// Maintenance ends the connections of servers that are checked.
	answer, err := e.master.worker(ctx, worker,
		fmt.Sprintf("set server %[1]s state maint;shutdown sessions server %[1]s;del server %[1]s", at), "")
	if err != nil {
		return fmt.Errorf("del server: %w", err)
	}
	if strings.Contains(answer, "Server deleted.") {
		delete(e.leaving, at)
	}
	// Otherwise its connections are about to end; the next sweep tries again.
	return nil
}

// do sends a command to the worker, which must not answer anything.
func (e *Engine) do(ctx context.Context, worker int, command string) error {
	answer, err := e.master.worker(ctx, worker, command, "")
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if answer != "" {
		return fmt.Errorf("%s: haproxy answers %q", command, answer)
	}
	return nil
}

// servers returns the servers that a worker has.
func (e *Engine) servers(ctx context.Context, worker int) (map[place]present, error) {
	answer, err := e.master.worker(ctx, worker, "show servers state", "")
	if err != nil {
		return nil, fmt.Errorf("show servers state: %w", err)
	}
	return parseServers(answer)
}

func parseServers(answer string) (map[place]present, error) {
	columns := map[string]int{}
	servers := map[place]present{}
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
		if err != nil {
			return nil, fmt.Errorf("show servers state: unexpected line %q", line)
		}
		at := place{fields[columns["be_name"]], fields[columns["srv_name"]]}
		servers[at] = present{
			weight: weight, disabled: fields[columns["srv_admin_state"]] != "0",
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("show servers state: unexpected answer %.100q", answer)
	}
	return servers, nil
}
