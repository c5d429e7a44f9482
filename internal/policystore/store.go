package policystore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/policy"
)

// API reads policies.
type API interface {
	// Served reports whether the API server serves both kinds of policies.
	Served(ctx context.Context) (bool, error)
	// List and Watch apply to one kind in all namespaces.
	List(ctx context.Context, kind string, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, kind string, options metav1.ListOptions) (watch.Interface, error)
}

// Options holds the dependencies of a Store.
type Options struct {
	// API reads the policies.
	API API
	// Cluster reads the namespaces: they are watched, and one that the watch has not returned yet is read directly.
	Cluster kubernetes.Interface
	// Clock times the discovery of the CRDs.
	Clock clock.Clock
	// Status is true if entries have a status and problems, for the controllers that write them.
	Status bool
}

// Subscriber is notified of changes, after the Store contains them. Calls are sequential for each kind of object and
// must return quickly.
type Subscriber interface {
	// PolicyChanged is called when a policy was added, deleted or changed, even if only its status changed.
	PolicyChanged(key policy.Key)
	// NamespaceChanged is called when a namespace was added or deleted or its labels changed.
	NamespaceChanged(name string)
}

// Store keeps policies and namespaces up to date while Run runs.
type Store struct {
	api       API
	cluster   kubernetes.Interface
	live      typedcorev1.NamespaceInterface
	newcomers *newcomers
	clock     clock.Clock
	status    bool
	cache     *policy.Cache
	// gone receives an item when the resource of a policy kind is not found although it was served before, lacking when
	// a policy begins to apply whose spec was dropped.
	gone, lacking chan struct{}
	// discovery reports the outcome of discovering the CRDs.
	discovery *report

	mu sync.RWMutex
	// entries holds the policies, and groups those of each namespace in the order of their limit; those of the cluster
	// have the namespace "".
	entries map[policy.Key]*Entry
	groups  map[string][]*policy.Policy
	// namespaces holds the labels of the namespaces.
	namespaces  map[string]map[string]string
	subscribers []Subscriber
	// synced is true for each kind that has been read.
	synced map[string]bool
}

var errNotSynced = errors.New("policies have not been read from the API server yet")

// New returns an empty Store; Run fills it.
func New(o Options) *Store {
	s := &Store{
		api: o.API, cluster: o.Cluster, live: o.Cluster.CoreV1().Namespaces(), clock: o.Clock, status: o.Status, cache: &policy.Cache{},
		gone: make(chan struct{}, 1), lacking: make(chan struct{}, 1),
		entries: map[policy.Key]*Entry{}, groups: map[string][]*policy.Policy{},
		namespaces: map[string]map[string]string{}, synced: map[string]bool{},
	}
	s.newcomers = newNewcomers(s.live)
	s.discovery = s.report("discover", "policies")
	return s
}

// Subscribe notifies the subscriber of every change from now on.
func (s *Store) Subscribe(subscriber Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, subscriber)
}

// HasSynced reports whether the Store has read the cluster's policies and namespaces. It is false while the policies of
// newly installed CRDs are being read.
func (s *Store) HasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced[kindNamespace] && s.synced[kinds[0]] && s.synced[kinds[1]]
}

// Applicable returns the policies that apply to a namespace, in the order of precedence of their defaults, with their
// defaults and rules. A namespace that the Store does not contain yet is read from the API server. An error means that
// the policies are temporarily unavailable.
func (s *Store) Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error) {
	if !s.HasSynced() {
		return nil, errNotSynced
	}
	candidates := s.Candidates(namespace)
	labels, known := s.Labels(namespace)
	if !known && slices.ContainsFunc(candidates, func(p *policy.Policy) bool { return p.Key().Namespace == "" }) {
		var err error
		if labels, err = s.newcomers.labels(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return policy.Open(policy.Applicable(candidates, namespace, labels)), nil
}

// Candidates returns the policies that may apply to a namespace, and the first of its own that does not; for "", only
// those of the cluster.
func (s *Store) Candidates(namespace string) []*policy.Policy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	own := s.groups[namespace]
	if namespace == "" || len(own) == 0 {
		return slices.Clone(s.groups[""])
	}
	// An admin of a namespace may have created thousands.
	return slices.Concat(own[:min(len(own), own[0].Key().MaxApplied()+1)], s.groups[""])
}

// Others returns the policies except for one, and the labels of every namespace by its name. An error means that they
// are temporarily unavailable.
func (s *Store) Others(except policy.Key) (
	others []*policy.Policy, namespaces map[string]map[string]string, err error,
) {
	if !s.HasSynced() {
		return nil, nil, errNotSynced
	}
	others = slices.DeleteFunc(s.Policies(), func(p *policy.Policy) bool { return p.Key() == except })
	s.mu.RLock()
	defer s.mu.RUnlock()
	return others, maps.Clone(s.namespaces), nil
}

// Excluded returns a namespace that the policy selects but in which it is inactive or, if there are too many, does not
// apply; empty if there is none.
func (s *Store) Excluded(p *policy.Policy) (namespace string, inactive bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	group := s.groups[p.Key().Namespace]
	if p.Key().Namespace != "" && len(group) > p.Key().MaxApplied() {
		group = group[:p.Key().MaxApplied()]
		if !slices.Contains(group, p) {
			group = append(slices.Clone(group), p)
		}
	}
	return p.Excluded(group, s.namespaces)
}

// Policies returns all policies: those of the cluster first, then by namespace.
func (s *Store) Policies() []*policy.Policy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*policy.Policy
	for _, namespace := range slices.Sorted(maps.Keys(s.groups)) {
		all = append(all, s.groups[namespace]...)
	}
	return all
}

// Entry returns the policy with the key.
func (s *Store) Entry(key policy.Key) (*Entry, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.entries[key]
	return e, ok
}

// Labels returns the labels of a namespace, if the Store contains it; they must not be modified.
func (s *Store) Labels(namespace string) (map[string]string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	labels, ok := s.namespaces[namespace]
	return labels, ok
}
