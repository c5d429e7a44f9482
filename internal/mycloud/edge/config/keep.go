package config

import (
	"net/netip"
	"slices"
)

// present returns a listener as it was before, or nil.
func (c *compiler) present(loadBalancer, key string, address netip.Addr) *Listener {
	at := slices.IndexFunc(c.before.Listeners, func(l Listener) bool {
		return l.LoadBalancer == loadBalancer && l.Key == key && l.Address == address
	})
	if at < 0 {
		return nil
	}
	return &c.before.Listeners[at]
}

// keep adds listeners as they were before. A pool that other listeners use is that of now, others are as they were.
func (c *compiler) keep(listeners []*Listener) {
	for _, l := range listeners {
		if l == nil || slices.ContainsFunc(c.config.Listeners, l.conflicts) {
			continue
		}
		is := func(p Pool) bool { return p.ID == l.Pool }
		if !slices.ContainsFunc(c.config.Pools, is) {
			at := slices.IndexFunc(c.before.Pools, is)
			if at < 0 {
				continue
			}
			c.config.Pools = append(c.config.Pools, c.before.Pools[at])
		}
		c.config.Listeners = append(c.config.Listeners, *l)
	}
}

// conflicts reports whether two listeners cannot both be there.
func (l *Listener) conflicts(o Listener) bool {
	return l.Address == o.Address && l.Port == o.Port && transport(l.Protocol) == transport(o.Protocol)
}
