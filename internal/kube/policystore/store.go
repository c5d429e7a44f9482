package policystore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/policy"
)

// API reads policies.
type API interface {
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
	status    bool
	cache     *policy.Cache

	mu sync.RWMutex
	// entries holds the policies, and groups those of each namespace in the order of their limit; those of the cluster
	// have the namespace "".
	entries map[policy.Key]*Entry
	groups  map[string][]*policy.Policy
	// namespaces holds the labels of the namespaces.
	namespaces  map[string]map[string]string
	subscribers []Subscriber
	// lacking are policies that apply although their specs were dropped.
	lacking sets.Set[policy.Key]
	// read are the kinds that have been read, and absent those that have no CRD.
	read, absent sets.Set[string]
}

var errNotSynced = errors.New("policies have not been read from the API server yet")

// New returns an empty Store; Run fills it.
func New(o Options) *Store {
	live := o.Cluster.CoreV1().Namespaces()
	return &Store{
		api: o.API, cluster: o.Cluster, live: live, newcomers: newNewcomers(live), status: o.Status, cache: &policy.Cache{},
		entries: map[policy.Key]*Entry{}, groups: map[string][]*policy.Policy{}, namespaces: map[string]map[string]string{},
		lacking: sets.New[policy.Key](), read: sets.New[string](), absent: sets.New[string](),
	}
}

// Subscribe notifies the subscriber of every change from now on.
func (s *Store) Subscribe(subscriber Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, subscriber)
}

// HasSynced reports whether the Store has read the cluster's policies and namespaces.
func (s *Store) HasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read.Has(kindNamespace) && s.read.HasAll(kinds...)
}

// setRead records that a kind was read, or that the API server does not serve it.
func (s *Store) setRead(logger klog.Logger, kind string, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read.Insert(kind)
	before := s.absent.Len()
	if served {
		s.absent.Delete(kind)
	} else {
		s.absent.Insert(kind)
	}
	switch now := s.absent.Len(); {
	case before == 0 && now > 0:
		logger.Info("Policy CRDs are not installed; serving without policies")
	case before > 0 && now == 0:
		logger.Info("Policy CRDs are installed; serving with policies")
	}
}

// InUse returns why policies do not apply: that they have not been read yet, or that the API server does not serve them.
func (s *Store) InUse() error {
	if !s.HasSynced() {
		return errNotSynced
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.absent.Len() > 0 {
		return fmt.Errorf("the API server does not serve %s", strings.Join(sets.List(s.absent), " and "))
	}
	return nil
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
	return p.Excluded(s.groups[p.Key().Namespace], s.namespaces)
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
