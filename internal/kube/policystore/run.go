package policystore

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
)

// retries are the intervals at which calls that fail are repeated: one to two seconds.
var retries = wait.Backoff{Duration: time.Second, Jitter: 1}

const (
	// discoverEvery is the interval for looking for absent CRDs. It costs the API server less than a watch of all CRDs.
	discoverEvery = 5 * time.Second
	// refillEvery is the interval at which specs are read again that were dropped and apply now.
	refillEvery = time.Second
	// pageSize is how many policies are read at a time from an API server that does not stream lists. Each may have 1.5 MB.
	pageSize = 25
)

const kindNamespace = "Namespace"

// kinds are the kinds of policies.
var kinds = []string{v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy}

// Run keeps the Store up to date until ctx ends, and returns when all its goroutines have ended. It must be called only
// once.
func (s *Store) Run(ctx context.Context) {
	var owned sync.WaitGroup
	defer owned.Wait()
	owned.Go(func() {
		s.follow(ctx, s.sink(ctx, kindNamespace), s.cluster, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return s.live.List(ctx, options)
			},
			WatchFuncWithContext: s.live.Watch,
		})
	})
	for _, kind := range kinds {
		into := s.sink(ctx, kind)
		owned.Go(func() {
			s.follow(ctx, into, s.api, &cache.ListWatch{
				ListWithContextFunc: into.page,
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					return s.api.Watch(ctx, kind, options)
				},
			})
		})
	}
	wait.UntilWithContext(ctx, s.refill, refillEvery)
}

// follow keeps the Store up to date with a resource until ctx ends. client is what the calls use, which may declare that
// it does not support streamed lists.
func (s *Store) follow(ctx context.Context, into sink, client any, calls *cache.ListWatch) {
	what, quiet := resource(into.kind), logr.Discard() // it would log every attempt
	listed, watched := observer(into.logger, "list", what), observer(into.logger, "watch", what)
	missed := false
	observed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := calls.ListWithContext(ctx, options)
			listed(ctx, err)
			// One answer does not remove policies: a resource that is not found may be about to be served.
			if again := missed || len(into.known) == 0; apierrors.IsNotFound(err) && again {
				into.removeAll(into.known.Clone())
				s.setRead(into.logger, into.kind, false)
				pause(ctx, discoverEvery)
			}
			missed = apierrors.IsNotFound(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := calls.WatchWithContext(ctx, options)
			watched(ctx, err)
			missed = missed && err != nil
			return w, err
		},
	}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(observed, client), nil, into,
		cache.ReflectorOptions{Name: what, Logger: &quiet, TypeDescription: what, Backoff: &retries})
	if into.kind != kindNamespace {
		r.WatchListPageSize = pageSize
	}
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

// observer returns a function that logs the outcome of one kind of calls: once when they begin to fail or fail for
// another reason, and once when they succeed again. A Reflector repeats them forever.
func observer(logger klog.Logger, verb, resource string) func(context.Context, error) {
	const working metav1.StatusReason = "working"
	last := working
	return func(ctx context.Context, err error) {
		now := working
		if err != nil {
			now = apierrors.ReasonForError(err) // error texts differ from call to call, in ports and times
		}
		switch {
		case now == last, ctx.Err() != nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err),
			apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err):
			return // part of the normal operation of a watch, or of a cluster without the CRDs
		case err != nil:
			logger.Error(err, "Call to the API server failed, will retry", "verb", verb, "resource", resource)
		default:
			logger.Info("Call to the API server succeeds again", "verb", verb, "resource", resource)
		}
		last = now
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
