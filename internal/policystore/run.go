package policystore

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
)

const (
	// discoverEvery is the interval for discovering absent CRDs.
	discoverEvery = 30 * time.Second
	// retryEvery is the interval for retrying a discovery that failed.
	retryEvery = 2 * time.Second
	// discoveryTimeout bounds one discovery.
	discoveryTimeout = 10 * time.Second
)

// Run keeps the Store up to date until ctx ends, and returns when all its goroutines have ended. It must be called only
// once.
func (s *Store) Run(ctx context.Context) {
	var owned sync.WaitGroup
	defer owned.Wait()
	owned.Go(func() { s.namespaces.RunWithContext(ctx) })
	logger := klog.FromContext(ctx)
	absent := false
	for ctx.Err() == nil {
		served, err := s.served(ctx)
		if err == nil && served {
			if absent {
				logger.Info("Policy CRDs are installed; serving with policies")
			}
			absent = false
			if err = s.watchPolicies(ctx); err == nil {
				continue
			}
			logger.Error(err, "Failed to watch policies, will retry")
		}
		wait := retryEvery
		if err == nil {
			if !absent {
				logger.Info("Policy CRDs are not installed; serving without policies")
			}
			absent = true
			s.setSynced(func() bool { return true })
			wait = discoverEvery
		}
		select {
		case <-ctx.Done():
		case <-s.clock.After(wait):
		}
	}
}

// served reports whether the CRDs of policies are installed. After an error, the known policies stay.
func (s *Store) served(ctx context.Context) (bool, error) {
	discovering, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	served, err := s.api.Served(discovering)
	s.discovery.observe(ctx, err)
	return served, err
}

// watchPolicies keeps the policies up to date until ctx ends or their CRDs are removed, and the policies with them.
func (s *Store) watchPolicies(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var informers sync.WaitGroup
	defer informers.Wait()
	defer stop()
	synced, err := s.startInformers(watching, &informers)
	if err != nil {
		return err
	}
	s.setSynced(synced)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.gone:
		}
		// A resource that an informer does not find may be about to be served. It is gone only if discovery confirms
		// it.
		if served, err := s.served(ctx); err == nil && !served {
			stop()
			informers.Wait()
			s.removeAll()
			return nil
		}
	}
}

// startInformers starts informers of both kinds. The returned function reports whether their first lists are in the
// Store.
func (s *Store) startInformers(ctx context.Context, running *sync.WaitGroup) (func() bool, error) {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: s.put, UpdateFunc: func(_, after any) { s.put(after) }, DeleteFunc: s.remove,
	}
	var synced []cache.InformerSynced
	for kind, example := range map[string]runtime.Object{
		v1alpha1.KindLoadBalancerPolicy:        &v1alpha1.LoadBalancerPolicy{},
		v1alpha1.KindClusterLoadBalancerPolicy: &v1alpha1.ClusterLoadBalancerPolicy{},
	} {
		informer, handled, err := s.informer(resource(kind), example, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return s.api.List(ctx, kind, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return s.api.Watch(ctx, kind, options)
			},
		}, s.api, handler)
		if err != nil {
			return nil, err
		}
		synced = append(synced, handled.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return func() bool {
		return !slices.ContainsFunc(synced, func(has cache.InformerSynced) bool { return !has() })
	}, nil
}

func (s *Store) setSynced(synced func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policiesSynced = synced
}
