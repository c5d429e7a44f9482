package policy

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
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

// Cache compiles policies when they are needed, and keeps them for a while. A cluster may have policies in thousands of
// namespaces, of which few are in use at a time, and compiling one takes microseconds.
type Cache struct {
	mu     sync.Mutex
	opened map[*Policy]*Policy
	weight int
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
	opened := c.opened[p]
	c.mu.Unlock()
	if opened == nil {
		if opened, _ = p.compile(true); !opened.inactive {
			c.keep(p, opened)
		}
	}
	return opened
}

// Findings validates a policy that New returned.
func (p *Policy) Findings() []finding.Finding {
	_, findings := p.compile(false)
	return findings
}

// spec returns the spec of the policy, or nil if it cannot be opened.
func (p *Policy) spec() *v1alpha1.LoadBalancerPolicySpec {
	raw, s := p.source.Load(), &v1alpha1.LoadBalancerPolicySpec{}
	if raw == nil || json.Unmarshal(*raw, s) != nil { // it was encoded from a spec
		return nil
	}
	return s
}

// keep adds an opened policy. Once too many are open, all others are compiled again when they are needed.
func (c *Cache) keep(p, opened *Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.weight += p.size.weight(); c.opened == nil || c.weight > maxCached {
		c.opened, c.weight = map[*Policy]*Policy{}, p.size.weight()
	}
	c.opened[p] = opened
}

// weight estimates the bytes of a compiled policy.
func (s size) weight() int { return 2<<10 + 16*s.bytes + 128*s.steps }
