package haproxy

import (
	"fmt"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
)

// However many members of a load balancer change at once, others wait hardly longer than for a reload.
func TestManyMembersChangeAtOnce(t *testing.T) {
	const listeners, most = 2, 1000
	e := newEngine(t, nil)
	l, p := other(t)
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	for i := range listeners {
		many := listener(t, "http", fmt.Sprintf("tcp/%d", 81+i))
		c.Listeners, c.Pools = append(c.Listeners, many), append(c.Pools, pool(many.Key))
	}
	apply(t, e, c)
	alive := member(t, "a")
	var members []config.Member
	for i := range most {
		m := alive
		m.Key = fmt.Sprint(i)
		members = append(members, m)
	}
	change := func(members []config.Member) time.Duration {
		for i := range listeners {
			c.Pools[1+i].Members = members
		}
		start := time.Now()
		apply(t, e, c)
		return time.Since(start)
	}
	added := change(members)
	serves(t, c.Listeners[1])
	start := time.Now()
	c.Listeners[1].IdleTimeout = 50 * time.Second
	apply(t, e, c)
	reload := time.Since(start)
	removed := change(members[:1])
	serves(t, c.Listeners[listeners])
	t.Logf("%d members were added within %s and removed within %s; a reload with them takes %s", listeners*most, added, removed, reload)
	if added+removed > 6*reload {
		t.Errorf("changes take %s, a reload %s", added+removed, reload)
	}
}

// So do those that have changed while the agent was away.
func TestManyMembersChangeWithoutTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		// second is true if another listener has the same pool.
		second        bool
		before, after int
		reloads       bool
	}{
		"few join":               {before: 1, after: 1 + mostCommands},
		"few join a pool of two": {second: true, before: 1, after: 1 + mostCommands},
		"many join":              {before: 1, after: 2 + mostCommands, reloads: true},
		"many leave":             {before: 2 + mostCommands, after: 1, reloads: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, nil)
			l, p := other(t)
			c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
			if test.second {
				second := l
				second.Key, second.Port = "tcp/8099", 8099
				c.Listeners = append(c.Listeners, second)
			}
			alive := member(t, "a")
			has := func(members int) {
				c.Pools[0].Members = nil
				for i := range members {
					m := alive
					m.Key = fmt.Sprint(i)
					c.Pools[0].Members = append(c.Pools[0].Members, m)
				}
			}
			has(test.before)
			apply(t, e, c)
			before := worker(t, e)
			has(test.after)
			apply(t, engineIn(t, e.Dir, e.Binary, nil), c)
			if reloads := worker(t, e) != before; reloads != test.reloads {
				t.Errorf("HAProxy reloads: %t, want %t", reloads, test.reloads)
			}
			serves(t, l)
		})
	}
}
