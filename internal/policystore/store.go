package policystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// API is what a Store reads policies from.
type API interface {
	// Served tells whether the API server knows both kinds of policies.
	Served(ctx context.Context) (bool, error)
	// List and Watch are of one kind in all namespaces.
	List(ctx context.Context, kind string, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, kind string, options metav1.ListOptions) (watch.Interface, error)
}

// Options are what a Store depends on; all of them are required.
type Options struct {
	// API has the policies.
	API API
	// Cluster has the namespaces: they are watched, and one that the watch has not shown yet is asked for.
	Cluster kubernetes.Interface
	// Clock tells when to look for the CRDs again.
	Clock clock.Clock
}

// Subscriber is told of changes, after the Store has them. Calls come one after the other for each kind of object, and must
// return quickly.
type Subscriber interface {
	// PolicyChanged says that a policy came, went or changed, be it by its status alone.
	PolicyChanged(key policy.Key)
	// NamespaceChanged says that a namespace came, went or has other labels.
	NamespaceChanged(name string)
}

// Store keeps policies and namespaces while Run runs.
type Store struct {
	api        API
	namespaces cache.SharedIndexInformer
	live       typedcorev1.NamespaceInterface
	clock      clock.Clock
	// gone has an item when a policy's resource was not found, though it was served before.
	gone chan struct{}
	// looks reports on the questions whether the CRDs are there.
	looks *report

	mu          sync.Mutex
	entries     map[policy.Key]*Entry
	subscribers []Subscriber
	// policiesSynced tells whether entries are what the cluster has; nil is no.
	policiesSynced func() bool

	// compiled is made from entries when someone asks; nil is to be made anew.
	compiled atomic.Pointer[snapshot]
}

// snapshot are all policies at a moment, in the order of their keys.
type snapshot struct {
	policies []*policy.Policy
	// cluster tells whether one of them selects by labels.
	cluster bool
}

var errNotSynced = errors.New("policies have not been read from the API server yet")

// New makes a Store; Run fills it.
func New(o Options) (*Store, error) {
	s := &Store{
		api: o.API, live: o.Cluster.CoreV1().Namespaces(), clock: o.Clock,
		gone: make(chan struct{}, 1), entries: map[policy.Key]*Entry{},
	}
	s.looks = s.report("discover", "policies")
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
			was, ok1 := before.(*corev1.Namespace)
			is, ok2 := after.(*corev1.Namespace)
			if ok1 && ok2 && !maps.Equal(was.Labels, is.Labels) {
				s.namespaceChanged(is)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Subscribe tells the subscriber of every change from now on.
func (s *Store) Subscribe(subscriber Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, subscriber)
}

// HasSynced tells whether the Store has what the cluster has. It does not while CRDs that have just come are being read.
func (s *Store) HasSynced() bool {
	s.mu.Lock()
	synced := s.policiesSynced
	s.mu.Unlock()
	return synced != nil && synced() && s.namespaces.HasSynced()
}

// Applicable are the policies that apply to a namespace, in the order in which their defaults win. A namespace that the Store
// does not know yet is asked for. An error means that they cannot be known now.
func (s *Store) Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error) {
	if !s.HasSynced() {
		return nil, errNotSynced
	}
	is := s.snapshot()
	labels, known := s.Labels(namespace)
	if !known && is.cluster {
		live, err := s.live.Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get namespace %s: %w", namespace, err)
		}
		labels = live.Labels
	}
	return policy.Applicable(is.policies, namespace, labels), nil
}

// Others are the policies but for one, and the labels of every namespace by its name. An error means that they cannot be
// known now.
func (s *Store) Others(except policy.Key) (others []*policy.Policy, namespaces map[string]map[string]string, err error) {
	if !s.HasSynced() {
		return nil, nil, errNotSynced
	}
	others = slices.DeleteFunc(slices.Clone(s.Policies()), func(p *policy.Policy) bool { return p.Key() == except })
	namespaces = map[string]map[string]string{}
	for _, obj := range s.namespaces.GetStore().List() {
		if namespace, ok := obj.(*corev1.Namespace); ok {
			namespaces[namespace.Name] = namespace.Labels
		}
	}
	return others, namespaces, nil
}

// Policies are all that there are, in the order of their keys; they must not be changed.
func (s *Store) Policies() []*policy.Policy { return s.snapshot().policies }

// Entry is the policy with the key.
func (s *Store) Entry(key policy.Key) (*Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	return e, ok
}

// Labels are those of a namespace, as far as the Store knows it; they must not be changed.
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
	if is := s.compiled.Load(); is != nil {
		return is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is := &snapshot{}
	for _, key := range slices.SortedFunc(maps.Keys(s.entries), compareKeys) {
		is.policies = append(is.policies, s.entries[key].Policy)
		is.cluster = is.cluster || key.Kind == v1alpha1.KindClusterLoadBalancerPolicy
	}
	s.compiled.Store(is)
	return is
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
