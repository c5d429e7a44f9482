package policystore

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// report logs the outcome of one kind of calls: once when they begin to fail or fail for another reason, and once when
// they succeed again. An informer repeats them forever.
type report struct {
	verb, resource string
	// gone receives an item when the resource is not found.
	gone chan<- struct{}

	mu sync.Mutex
	// failing is the reason of the last failure; empty if the last call succeeded.
	failing string
}

func (s *Store) report(verb, resource string) *report {
	return &report{verb: verb, resource: resource, gone: s.gone}
}

// reported returns a ListWatch that reports the outcome of its calls.
func (s *Store) reported(logger klog.Logger, resource string, lw *cache.ListWatch) *cache.ListWatch {
	lists, watches := s.report("list", resource), s.report("watch", resource)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, options)
			lists.observe(klog.NewContext(ctx, logger), err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, options)
			watches.observe(klog.NewContext(ctx, logger), err)
			return w, err
		},
	}
}

// observe processes the outcome of a call.
func (r *report) observe(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
		// These are part of the normal operation of a watch.
	case apierrors.IsNotFound(err):
		// watchPolicies determines whether the CRD was removed, and Run logs it.
		signal(r.gone)
	default:
		r.log(klog.FromContext(ctx), err)
	}
}

func (r *report) log(logger klog.Logger, err error) {
	failing := ""
	if err != nil {
		// Error texts differ from call to call, in ports and times.
		failing = "failed " + string(apierrors.ReasonForError(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if failing == r.failing {
		return
	}
	r.failing = failing
	if err != nil {
		logger.Error(err, "Call to the API server failed, will retry", "verb", r.verb, "resource", r.resource)
		return
	}
	logger.Info("Call to the API server succeeds again", "verb", r.verb, "resource", r.resource)
}
