package haproxy

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// commandsAtOnce keeps commands within what HAProxy reads at once.
const commandsAtOnce = 100

// limit is the value of a limit under the key by which the configuration refers to it.
type limit struct {
	key   string
	value int
}

// ConnectionsKey is the key of the most connections, EventsKey that of the most requests or connections per period.
func (f *frontend) ConnectionsKey() string { return f.Name + ":connections" }

// EventsKey is described at ConnectionsKey.
func (f *frontend) EventsKey() string { return f.Name + ":events" }

// limits returns the limits of all listeners.
func (p *plan) limits() []limit {
	var all []limit
	for i := range p.frontends {
		f := &p.frontends[i]
		if f.MaxConnections > 0 {
			all = append(all, limit{f.ConnectionsKey(), f.MaxConnections})
		}
		if f.Quota.Events > 0 {
			all = append(all, limit{f.EventsKey(), f.Quota.Events})
		}
	}
	return all
}

// limitsFile returns the file from which a worker that starts has the limits.
func (p *plan) limitsFile() []byte {
	var b bytes.Buffer
	for _, l := range p.limits() {
		fmt.Fprintln(&b, l.key, l.value)
	}
	return b.Bytes()
}

// limit makes the limits of the worker those of the plan.
func (e *Engine) limit(ctx context.Context, worker int, p *plan) error {
	wanted := p.limits()
	if len(wanted) == 0 {
		return nil
	}
	file := e.file(limitsFile)
	answer, err := e.master.worker(ctx, worker, "show map "+file, "")
	if err != nil {
		return fmt.Errorf("show map: %w", err)
	}
	has := map[string]string{}
	for line := range strings.Lines(answer) {
		if fields := strings.Fields(line); len(fields) == 3 {
			has[fields[1]] = fields[2]
		}
	}
	var commands []string
	for _, l := range wanted {
		// A worker of an earlier agent has limits that cannot be changed, and none of these keys.
		if value, ok := has[l.key]; ok && value != strconv.Itoa(l.value) {
			commands = append(commands, fmt.Sprintf("set map %s %s %d", file, l.key, l.value))
		}
	}
	for some := range slices.Chunk(commands, commandsAtOnce) {
		if err := e.do(ctx, worker, strings.Join(some, ";")); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
	}
	return nil
}
