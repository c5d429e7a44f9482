package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// occupied finds the listeners whose port another program has. HAProxy does not look when it checks a configuration, and
// a worker that cannot have one port does not start at all. Runs is the structure that HAProxy runs, if it does.
func (e *Engine) occupied(ctx context.Context, runs string) map[string]error {
	ours, found := map[string]bool{}, map[string]error{}
	if runs != "" || len(e.hung) > 0 {
		content, _ := os.ReadFile(e.file(configFile))
		if !strings.Contains(string(content), "description "+runs) {
			// An agent has ended during a reload, so that it is not known which ports are HAProxy's own.
			return found
		}
		ours = bound(string(content))
	}
	for _, u := range e.units {
		if u.listener == nil {
			continue
		}
		address := netip.AddrPortFrom(u.listener.Address.Unmap(), u.listener.Port)
		if ours[address.String()] || !address.IsValid() {
			continue
		}
		if err := vacant(ctx, address); errors.Is(err, syscall.EADDRINUSE) {
			found[u.key()] = fmt.Errorf("another program of this machine uses the port: %w", err)
		}
	}
	return found
}

// bound returns the addresses of the listeners in a configuration file.
func bound(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "bind" && words[2] == "transparent" {
			found[words[1]] = true
		}
	}
	return found
}

func vacant(ctx context.Context, address netip.AddrPort) error {
	l, err := (&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			// The address may arrive at this machine later.
			if failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1); failed == nil {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			}
		})
		return errors.Join(err, failed)
	}}).Listen(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	return l.Close()
}
