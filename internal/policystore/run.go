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
	// lookEvery is how often absent CRDs are looked for.
	lookEvery = 30 * time.Second
	// retryEvery is how often an API server is asked again that has not answered whether they are there.
	retryEvery = 2 * time.Second
	// askTimeout bounds that question.
	askTimeout = 10 * time.Second
)

// Run keeps the Store until ctx ends, and returns when nothing of it runs any more. It is called once.
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
			logger.Error(err, "Could not watch policies, will retry")
		}
		wait := retryEvery
		if err == nil {
			if !absent {
				logger.Info("Policy CRDs are not installed; serving without policies")
			}
			absent = true
			s.setSynced(func() bool { return true })
			wait = lookEvery
		}
		select {
		case <-ctx.Done():
		case <-s.clock.After(wait):
		}
	}
}

// served asks whether there are CRDs of policies. Nothing follows from silence: what was known of them stays.
func (s *Store) served(ctx context.Context) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	served, err := s.api.Served(asking)
	s.looks.ended(ctx, err)
	return served, err
}

// watchPolicies keeps the policies until ctx ends or their CRDs are gone, and with them the policies.
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
		// What an informer does not find may be about to come: it is gone when the API server says that, too.
		if served, err := s.served(ctx); err == nil && !served {
			stop()
			informers.Wait()
			s.removeAll()
			return nil
		}
	}
}

// startInformers makes informers of both kinds. The function tells whether their first lists are in the Store.
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
