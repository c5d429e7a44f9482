package policy

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"quaymaster.dev/api/v1alpha1"
)

// source is the spec of a policy as JSON, which takes a tenth of the memory of its compiled form. It is nil if the policy
// exceeds the limit by itself, or was dropped.
type source = atomic.Pointer[[]byte]

// Held reports whether the policy can be opened.
func (p *Policy) Held() bool { return p.parts != nil || p.source.Load() != nil }

// Drop releases the spec of a policy that does not apply. If the policy is opened nevertheless, it is inactive.
func (p *Policy) Drop() { p.source.Store(nil) }

// maxCached bounds the weight of the policies that a Cache keeps, in bytes.
const maxCached = 16 << 20

// Cache compiles policies when they are needed, and keeps those that were needed last. A cluster may have policies in
// thousands of namespaces, of which few are in use at a time, and compiling one takes microseconds.
type Cache struct {
	mu sync.Mutex
	// young holds what was opened since old was young; its weight is at most half of the maximum.
	young, old map[*Policy]*Policy
	weight     int
}

// Open returns the policies with their defaults and rules. It does not change the list. Every other function that takes
// the policies of a Service takes opened ones.
func Open(list []*Policy) []*Policy {
	opened := make([]*Policy, len(list))
	for i, p := range list {
		opened[i] = p.open()
	}
	return opened
}

func (p *Policy) open() *Policy {
	if p.parts != nil {
		return p
	}
	c := p.cache
	c.mu.Lock()
	opened := c.young[p]
	recent := opened != nil
	if !recent {
		opened = c.old[p]
	}
	c.mu.Unlock()
	if recent {
		return opened
	}
	if opened == nil {
		raw := p.source.Load()
		if raw == nil {
			return p.off
		}
		s := &v1alpha1.LoadBalancerPolicySpec{}
		if err := json.Unmarshal(*raw, s); err != nil {
			return p.off // impossible: it was encoded from a spec
		}
		opened, _ = p.compile(s, true)
	}
	c.keep(p, opened)
	return opened
}

func (c *Cache) keep(p, opened *Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.weight += p.size.weight(); c.young == nil || c.weight > maxCached/2 {
		c.young, c.old, c.weight = map[*Policy]*Policy{}, c.young, p.size.weight()
	}
	c.young[p] = opened
}

// weight estimates the bytes of a compiled policy.
func (s size) weight() int { return 2<<10 + 16*s.bytes + 128*s.steps }
