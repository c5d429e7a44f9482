package haproxy

import (
	"context"
	"net/netip"
)

// Serves returns the addresses and ports on which HAProxy accepts connections now, and an error if it is not known to
// run.
func (e *Engine) Serves(ctx context.Context) ([]netip.AddrPort, error) {
	now, rows, err := e.current(ctx, e.haproxy.Frontends)
	if err != nil {
		return nil, err
	}
	open := make(map[string]bool, len(rows))
	for _, row := range rows {
		open[row.Get("pxname")] = row.Get("status") == "OPEN"
	}
	served := make([]netip.AddrPort, 0, len(now.plan.Frontends))
	for i := range now.plan.Frontends {
		if f := &now.plan.Frontends[i]; open[f.Name] && !f.Removed {
			served = append(served, f.Bind)
		}
	}
	return served, nil
}
