package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// claim makes sure of the ports of listeners before a reload: it refuses the units whose port another program has, and has
// none accepted any more that HAProxy cannot listen for again. It reports whether there are any, so that the plan is
// different. HAProxy does not look when it checks a configuration, and a worker that cannot have one port does not start at
// all. Runs is the structure that HAProxy runs, if it does.
func (e *Engine) claim(ctx context.Context, runs string, refused plan.Refusals) (bool, error) {
	ours, different := map[netip.AddrPort]bool{}, false
	if runs != "" || e.haproxy.Hung() > 0 {
		text := e.haproxy.Text()
		if !strings.Contains(text, "description "+runs) {
			// An agent has ended during a reload, so that it is not known which ports are HAProxy's own.
			return false, nil
		}
		bound := binds(text)
		if runs != "" {
			lost, err := e.reopen(ctx)
			if err != nil {
				return false, err
			}
			for _, name := range lost {
				delete(bound, name)
				delete(e.running.Units, name)
				different = true
			}
		}
		for _, address := range bound {
			ours[address] = true
		}
	}
	for _, u := range e.units {
		if u.Listener == nil {
			continue
		}
		address := netip.AddrPortFrom(u.Listener.Address.Unmap(), u.Listener.Port)
		if ours[address] || !address.IsValid() {
			continue
		}
		if err := vacant(ctx, address); errors.Is(err, syscall.EADDRINUSE) {
			refused.Add(u.Key(), fmt.Errorf("another program of this machine uses the port: %w", err))
			different = true
		}
	}
	return different, nil
}

// reopen has HAProxy listen again for all listeners that it has disabled, and returns the names of those for which it
// cannot. Their sockets are bound, but any program may listen on their ports instead: then a reload makes HAProxy pause all
// listeners, or abort. No client reaches a listener that is not wanted meanwhile, because the kernel lets through what
// Serves returns.
func (e *Engine) reopen(ctx context.Context) ([]string, error) {
	p, err := e.haproxy.Running(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := e.haproxy.Frontends(ctx, p.Current)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, row := range rows {
		if row.Get("status") == "OPEN" {
			continue
		}
		name := row.Get("pxname")
		err := e.haproxy.Do(ctx, p.Current, "enable frontend "+name)
		if _, ok := errors.AsType[*process.CommandError](err); ok {
			lost = append(lost, name)
		} else if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// binds returns the addresses of the frontends in a configuration file, by name.
func binds(text string) map[string]netip.AddrPort {
	found, name := map[string]netip.AddrPort{}, ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "frontend":
			name = words[1]
		case len(words) > 2 && words[0] == "bind" && words[2] == "transparent":
			if address, err := netip.ParseAddrPort(words[1]); err == nil {
				found[name] = address
			}
		}
	}
	return found
}

func vacant(ctx context.Context, address netip.AddrPort) error {
	l, err := (&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = bindAnywhere(int(fd)) })
		return errors.Join(err, failed)
	}}).Listen(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	return l.Close()
}
