package policystore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"quaymaster.dev/api/v1alpha1"
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

// Options holds the dependencies of a Store; all of them are required.
type Options struct {
	// API reads the policies.
	API API
	// Cluster reads the namespaces: they are watched, and one that the watch has not returned yet is read directly.
	Cluster kubernetes.Interface
	// Clock times the discovery of the CRDs.
	Clock clock.Clock
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
	api        API
	namespaces cache.SharedIndexInformer
	live       typedcorev1.NamespaceInterface
	newcomers  *newcomers
	clock      clock.Clock
	// gone receives an item when the resource of a policy kind is not found although it was served before.
	gone chan struct{}
	// discovery reports the outcome of discovering the CRDs.
	discovery *report

	mu          sync.Mutex
	entries     map[policy.Key]*Entry
	subscribers []Subscriber
	// policiesSynced reports whether entries match the cluster; nil means no.
	policiesSynced func() bool

	// compiled is built from entries on demand; nil means that it must be rebuilt.
	compiled atomic.Pointer[snapshot]
}

// snapshot holds all policies at one moment, sorted by key.
type snapshot struct {
	policies []*policy.Policy
	// cluster are the policies of the cluster, namespaced the others by namespace: a request reads only those that may
	// apply to its namespace.
	cluster    []*policy.Policy
	namespaced map[string][]*policy.Policy
}

// candidates returns the policies that may apply to a namespace.
func (s *snapshot) candidates(namespace string) []*policy.Policy {
	switch {
	case len(s.cluster) == 0:
		return s.namespaced[namespace]
	case len(s.namespaced[namespace]) == 0:
		return s.cluster
	}
	return slices.Concat(s.namespaced[namespace], s.cluster)
}

var errNotSynced = errors.New("policies have not been read from the API server yet")

// New returns an empty Store; Run fills it.
func New(o Options) (*Store, error) {
	s := &Store{
		api: o.API, live: o.Cluster.CoreV1().Namespaces(), clock: o.Clock,
		gone: make(chan struct{}, 1), entries: map[policy.Key]*Entry{},
	}
	s.newcomers = newNewcomers(s.live)
	s.discovery = s.report("discover", "policies")
	var err error
	s.namespaces, _, err = s.informer("namespaces", &corev1.Namespace{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return s.live.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return s.live.Watch(ctx, options)
		},
	}, o.Cluster, cache.ResourceEventHandlerFuncs{
		AddFunc:    s.namespaceChanged,
		DeleteFunc: s.namespaceChanged,
		UpdateFunc: func(before, after any) {
			oldNamespace, ok1 := before.(*corev1.Namespace)
			newNamespace, ok2 := after.(*corev1.Namespace)
			if ok1 && ok2 && !maps.Equal(oldNamespace.Labels, newNamespace.Labels) {
				s.namespaceChanged(newNamespace)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
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
	s.mu.Lock()
	synced := s.policiesSynced
	s.mu.Unlock()
	return synced != nil && synced() && s.namespaces.HasSynced()
}

// Applicable returns the policies that apply to a namespace, in the order of precedence of their defaults. A namespace
// that the Store does not contain yet is read from the API server. An error means that the policies are temporarily
// unavailable.
func (s *Store) Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error) {
	if !s.HasSynced() {
		return nil, errNotSynced
	}
	current := s.snapshot()
	labels, known := s.Labels(namespace)
	if !known && len(current.cluster) > 0 {
		var err error
		if labels, err = s.newcomers.labels(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return policy.Applicable(current.candidates(namespace), namespace, labels), nil
}

// Others returns the policies except for one, and the labels of every namespace by its name. An error means that they
// are temporarily unavailable.
func (s *Store) Others(except policy.Key) (
	others []*policy.Policy, namespaces map[string]map[string]string, err error,
) {
	if !s.HasSynced() {
		return nil, nil, errNotSynced
	}
	others = slices.DeleteFunc(slices.Clone(s.Policies()), func(p *policy.Policy) bool { return p.Key() == except })
	return others, s.labels(), nil
}

// labels returns the labels of every namespace by its name.
func (s *Store) labels() map[string]map[string]string {
	namespaces := map[string]map[string]string{}
	for _, obj := range s.namespaces.GetStore().List() {
		if namespace, ok := obj.(*corev1.Namespace); ok {
			namespaces[namespace.Name] = namespace.Labels
		}
	}
	return namespaces
}

// Displaced returns a namespace that the policy selects but to which it does not apply, because too many others do;
// empty if there is none.
func (s *Store) Displaced(p *policy.Policy) string {
	current := s.snapshot()
	if key := p.Key(); key.Namespace != "" {
		return p.Displaced(current.namespaced[key.Namespace], nil)
	}
	if len(current.cluster) <= p.Key().MaxApplied() {
		return ""
	}
	return p.Displaced(current.cluster, s.labels())
}

// Policies returns all policies, sorted by key; they must not be modified.
func (s *Store) Policies() []*policy.Policy { return s.snapshot().policies }

// Entry returns the policy with the key.
func (s *Store) Entry(key policy.Key) (*Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	return e, ok
}

// Labels returns the labels of a namespace, if the Store contains it; they must not be modified.
func (s *Store) Labels(namespace string) (map[string]string, bool) {
	obj, exists, err := s.namespaces.GetStore().GetByKey(namespace)
	if err != nil || !exists {
		return nil, false
	}
	found, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, false
	}
	return found.Labels, true
}

func (s *Store) snapshot() *snapshot {
	if current := s.compiled.Load(); current != nil {
		return current
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &snapshot{namespaced: map[string][]*policy.Policy{}}
	for _, key := range slices.SortedFunc(maps.Keys(s.entries), compareKeys) {
		p := s.entries[key].Policy
		next.policies = append(next.policies, p)
		if key.Kind == v1alpha1.KindClusterLoadBalancerPolicy {
			next.cluster = append(next.cluster, p)
		} else {
			next.namespaced[key.Namespace] = append(next.namespaced[key.Namespace], p)
		}
	}
	s.compiled.Store(next)
	return next
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
