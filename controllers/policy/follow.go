package policy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/controllers/worker"
	engine "quaymaster.dev/internal/rules/policy"
)

// follow applies a change to the ledger.
func (c *Controller) follow(_ context.Context, item change) worker.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case item.policy != engine.Key{}:
		c.applyPolicy(item.policy)
	case item.name != "":
		c.applyService(item.namespace, item.name, c.applicable(item.namespace))
	default:
		c.applyNamespace(item.namespace)
	}
	return worker.Done()
}

// validateAll validates every Service for the first time.
func (c *Controller) validateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.o.Store.Policies() {
		c.applied[p.Key()] = p
		c.touch(p.Key())
	}
	for _, obj := range c.services.GetStore().List() {
		if svc, ok := obj.(*corev1.Service); ok && isLoadBalancer(svc) {
			c.ledger.put(svc, c.applicable(svc.Namespace))
		}
	}
}

// applicable returns the policies of a namespace. It looks them up only if no Service of the namespace is in the
// ledger: a change of the policies is a change of its own.
func (c *Controller) applicable(namespace string) []*engine.Policy {
	if policies, ok := c.ledger.applicable(namespace); ok {
		return policies
	}
	return c.find(namespace)
}

func (c *Controller) find(namespace string) []*engine.Policy {
	labels, _ := c.o.Store.Labels(namespace) // a namespace that becomes known later is a change of its own
	return engine.Applicable(c.o.Store.Candidates(namespace), namespace, labels)
}

func (c *Controller) applyService(namespace, name string, applicable []*engine.Policy) {
	svc, err := c.o.Services.Lister().Services(namespace).Get(name)
	if err != nil || !isLoadBalancer(svc) {
		// The only error of the lister is that the Service does not exist.
		c.ledger.remove(namespace, name)
		return
	}
	c.ledger.put(svc, applicable)
}

// applyNamespace validates the Services of a namespace again if other policies apply to it than before.
func (c *Controller) applyNamespace(namespace string) {
	c.touchDisplaced(engine.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy})
	before, ok := c.ledger.applicable(namespace)
	if !ok {
		return
	}
	after := c.find(namespace)
	if slices.Equal(before, after) {
		return
	}
	for _, name := range c.ledger.services(namespace) {
		c.applyService(namespace, name, after)
	}
}

// touchDisplaced updates the policies that may apply, or not apply any more, because of a change of another one.
func (c *Controller) touchDisplaced(changed engine.Key) {
	for _, other := range c.o.Store.Candidates(changed.Namespace) {
		c.touch(other.Key())
	}
}

// applyPolicy validates the Services again that the policy applied to or applies to now.
func (c *Controller) applyPolicy(key engine.Key) {
	before := c.applied[key]
	var after *engine.Policy
	if entry, exists := c.o.Store.Entry(key); exists {
		after = entry.Policy
		c.applied[key] = after
		c.touch(key)
	} else {
		delete(c.applied, key)
		delete(c.written, key)
	}
	if before == after {
		return
	}
	c.touchDisplaced(key)
	for _, namespace := range c.ledger.namespaces() {
		labels, _ := c.o.Store.Labels(namespace)
		if before != nil && before.Selects(namespace, labels) || after != nil && after.Selects(namespace, labels) {
			c.applyNamespace(namespace)
		}
	}
}
