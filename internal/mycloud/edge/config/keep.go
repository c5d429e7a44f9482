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

// With returns the configuration with addresses, and the listeners on them, as they were before.
func (c *Config) With(addresses []netip.Addr, before *Config) *Config {
	if len(addresses) == 0 {
		return c
	}
	both := &Config{
		Addresses: slices.Concat(c.Addresses, addresses), Listeners: slices.Clone(c.Listeners), Pools: slices.Clone(c.Pools),
	}
	has, old := map[PoolID]bool{}, map[PoolID]Pool{}
	for _, p := range c.Pools {
		has[p.ID] = true
	}
	for _, p := range before.Pools {
		old[p.ID] = p
	}
	for _, l := range before.Listeners {
		if !slices.Contains(addresses, l.Address) {
			continue
		}
		both.Listeners = append(both.Listeners, l)
		if p, ok := old[l.Pool]; ok && !has[l.Pool] {
			has[l.Pool] = true
			both.Pools = append(both.Pools, p)
		}
	}
	both.sort()
	return both
}
