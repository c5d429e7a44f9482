package policystore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// rememberFor is how long the result of reading a namespace is used. The watch is usually faster.
	rememberFor = time.Second
	// readTimeout bounds reading a namespace, for however many requests.
	readTimeout = 2 * time.Second
	// readsPerSecond and readBurst bound the reads: few namespaces are created at a time.
	readsPerSecond = 5
	readBurst      = 20
	maxRemembered  = 1000
)

var errTooManyReads = errors.New("too many unknown namespaces at a time")

// newcomers reads namespaces that the watch has not returned yet. Requests can name any number of namespaces that do
// not exist, so reads are merged, remembered for a moment, and limited in rate.
type newcomers struct {
	api        typedcorev1.NamespaceInterface
	flights    singleflight.Group
	remembered *cache.LRUExpireCache
	budget     *rate.Limiter
}

func newNewcomers(api typedcorev1.NamespaceInterface) *newcomers {
	return &newcomers{
		api: api, remembered: cache.NewLRUExpireCache(maxRemembered), budget: rate.NewLimiter(readsPerSecond, readBurst),
	}
}

// labels returns the labels of a namespace.
func (n *newcomers) labels(ctx context.Context, name string) (map[string]string, error) {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return nil, fmt.Errorf("namespace %.63q does not exist: its name is not valid", name)
	}
	landed := n.flights.DoChan(name, func() (any, error) { return n.get(context.WithoutCancel(ctx), name) })
	select {
	case result := <-landed:
		labels, _ := result.Val.(map[string]string)
		return labels, result.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("get namespace %s: %w", name, ctx.Err())
	}
}

// get returns the labels of a namespace, from the API server or as it answered a moment ago.
func (n *newcomers) get(ctx context.Context, name string) (any, error) {
	known, _ := n.remembered.Get(name)
	if err, failed := known.(error); failed || known != nil {
		return known, err
	}
	if !n.budget.Allow() {
		return nil, fmt.Errorf("get namespace %s: %w", name, errTooManyReads)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := n.api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("get namespace %s: %w", name, err)
		n.remembered.Add(name, err, rememberFor)
		return nil, err
	}
	n.remembered.Add(name, found.Labels, rememberFor)
	return found.Labels, nil
}
