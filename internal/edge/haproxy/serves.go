package haproxy

import (
	"context"
	"net/netip"
)

// Serves returns the addresses and ports on which HAProxy accepts connections now, and an error if it is not known to
// run.
func (e *Engine) Serves(ctx context.Context) ([]netip.AddrPort, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.plan == nil {
		return nil, errNotApplied
	}
	if _, err := e.running(ctx); err != nil {
		return nil, err
	}
	served := make([]netip.AddrPort, len(e.plan.frontends))
	for i := range e.plan.frontends {
		served[i] = e.plan.frontends[i].Bind
	}
	return served, nil
}
