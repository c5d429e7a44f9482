// Package policies holds the policies of a cluster for tests of controllers, in the place of a policystore.Store.
package policies

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// Cluster holds policies and namespaces.
type Cluster struct {
	// Mu guards the maps and what they contain.
	Mu sync.Mutex
	// Entries are the policies, and Namespaces the labels of each namespace.
	Entries    map[policy.Key]*policystore.Entry
	Namespaces map[string]map[string]string
	// Version is the resourceVersion of what was written last.
	Version int
	// Subscriber is notified of changes; nil before there is one.
	Subscriber policystore.Subscriber
}

// New returns a Cluster with namespaces and no policies.
func New(namespaces map[string]map[string]string) *Cluster {
	return &Cluster{Entries: map[policy.Key]*policystore.Entry{}, Namespaces: namespaces}
}

// HasSynced returns true: a Cluster is complete from the start.
func (*Cluster) HasSynced() bool { return true }

// Subscribe sets the only subscriber.
func (c *Cluster) Subscribe(s policystore.Subscriber) { c.Subscriber = s }

// Policies returns all policies.
func (c *Cluster) Policies() []*policy.Policy {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	var all []*policy.Policy
	for _, e := range c.Entries {
		all = append(all, e.Policy)
	}
	return all
}

// Entry returns a policy.
func (c *Cluster) Entry(key policy.Key) (*policystore.Entry, bool) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	e, ok := c.Entries[key]
	return e, ok
}

// Labels returns the labels of a namespace.
func (c *Cluster) Labels(namespace string) (map[string]string, bool) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	labels, ok := c.Namespaces[namespace]
	return labels, ok
}

// Put creates or updates a policy, and returns its key.
func (c *Cluster) Put(p *v1alpha1.ClusterLoadBalancerPolicy) policy.Key {
	compiled, findings := policy.Compile(p)
	key := compiled.Key()
	c.Mu.Lock()
	c.Version++
	e := &policystore.Entry{
		Policy: compiled, Problems: finding.Summary(findings), UID: types.UID("uid-" + p.Name), Generation: 1,
		ResourceVersion: strconv.Itoa(c.Version),
	}
	if before := c.Entries[key]; before != nil {
		e.Generation, e.Status = before.Generation+1, before.Status
	}
	c.Entries[key] = e
	c.Mu.Unlock()
	if c.Subscriber != nil {
		c.Subscriber.PolicyChanged(key)
	}
	return key
}

// Label sets the labels of a namespace.
func (c *Cluster) Label(namespace string, labels map[string]string) {
	c.Mu.Lock()
	c.Namespaces[namespace] = labels
	c.Mu.Unlock()
	c.Subscriber.NamespaceChanged(namespace)
}
