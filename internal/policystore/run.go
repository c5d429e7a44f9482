package policystore

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
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

// pageSize is how many policies are read at a time from an API server that does not stream lists. Each may have 1.5 MB.
const pageSize = 25

const kindNamespace = "Namespace"

// kinds are the kinds of policies.
var kinds = []string{v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy}

// Run keeps the Store up to date until ctx ends, and returns when all its goroutines have ended. It must be called only
// once.
func (s *Store) Run(ctx context.Context) {
	var owned sync.WaitGroup
	defer owned.Wait()
	owned.Go(func() {
		s.follow(ctx, sink{s, kindNamespace}, s.cluster, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return s.live.List(ctx, options)
			},
			WatchFuncWithContext: s.live.Watch,
		})
	})
	logger := klog.FromContext(ctx)
	absent := false
	for ctx.Err() == nil {
		served, err := s.served(ctx)
		if err == nil && served {
			if absent {
				logger.Info("Policy CRDs are installed; serving with policies")
			}
			absent = false
			s.watchPolicies(ctx)
			continue
		}
		wait := retryEvery
		if err == nil {
			if !absent {
				logger.Info("Policy CRDs are not installed; serving without policies")
			}
			absent = true
			s.setSynced(true, kinds...)
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
func (s *Store) watchPolicies(ctx context.Context) {
	watching, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	s.setSynced(false, kinds...)
	for _, kind := range kinds {
		k := sink{s, kind}
		followers.Go(func() {
			s.follow(watching, k, s.api, &cache.ListWatch{
				ListWithContextFunc: k.page,
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					return s.api.Watch(ctx, kind, options)
				},
			})
		})
	}
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry:
			signal(s.lacking)
		case <-s.lacking:
			if retry = nil; s.refill(ctx) != nil { // the API server answers neither the watches, which report that
				retry = s.clock.After(retryEvery)
			}
		case <-s.gone:
			// A resource that is not found may be about to be served. It is gone only if discovery confirms it.
			if served, err := s.served(ctx); err == nil && !served {
				stop()
				followers.Wait()
				s.removeAll()
				return
			}
		}
	}
}

// follow keeps the Store up to date with a resource until ctx ends. client is what the calls use, which may declare that
// it does not support streamed lists.
func (s *Store) follow(ctx context.Context, into sink, client any, calls *cache.ListWatch) {
	what, quiet := resource(into.kind), logr.Discard() // the calls report their outcome, and not at every attempt
	watcher := cache.ToListWatcherWithWatchListSemantics(s.reported(klog.FromContext(ctx), what, calls), client)
	r := cache.NewReflectorWithOptions(watcher, nil, into,
		cache.ReflectorOptions{Name: what, Logger: &quiet, TypeDescription: what})
	if into.kind != kindNamespace {
		r.WatchListPageSize = pageSize
	}
	r.RunWithContext(klog.NewContext(ctx, quiet))
}
