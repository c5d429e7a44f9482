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

// report logs how calls of one sort go: once when they begin to fail, or fail otherwise, and once when they are well again.
// An informer repeats them for ever.
type report struct {
	verb, resource string
	// gone gets an item when the resource is not found.
	gone chan<- struct{}

	mu sync.Mutex
	// failing is the kind of the last failure; empty is none.
	failing string
}

func (s *Store) report(verb, resource string) *report {
	return &report{verb: verb, resource: resource, gone: s.gone}
}

// reported is the same with reports of how the calls went.
func (s *Store) reported(resource string, lw *cache.ListWatch) *cache.ListWatch {
	lists, watches := s.report("list", resource), s.report("watch", resource)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, options)
			lists.ended(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, options)
			watches.ended(ctx, err)
			return w, err
		},
	}
}

// ended takes the outcome of a call.
func (r *report) ended(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
		// These are the ordinary course of a watch.
	case apierrors.IsNotFound(err):
		// Whether that is the end is found out, and logged, elsewhere.
		select {
		case r.gone <- struct{}{}:
		default:
		}
	default:
		r.log(klog.FromContext(ctx), err)
	}
}

func (r *report) log(logger klog.Logger, err error) {
	failing := ""
	if err != nil {
		// The texts of errors differ from one to the next, in ports and times.
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
