package haproxy

import (
	"context"
	"net/netip"
)

// Serves returns the addresses and ports on which HAProxy accepts connections now, and an error if it is not known to
// run.
func (e *Engine) Serves(ctx context.Context) ([]netip.AddrPort, error) {
	now, rows, err := e.current(ctx, statFrontends)
	if err != nil {
		return nil, err
	}
	open := make(map[string]bool, len(rows))
	for _, row := range rows {
		open[row.get("pxname")] = row.get("status") == "OPEN"
	}
	served := make([]netip.AddrPort, 0, len(now.plan.frontends))
	for i := range now.plan.frontends {
		if f := &now.plan.frontends[i]; open[f.Name] && !f.removed {
			served = append(served, f.Bind)
		}
	}
	return served, nil
}
