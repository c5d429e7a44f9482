package policystore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// cluster counts the reads of namespaces; of these only "shop" exists.
type cluster struct {
	typedcorev1.NamespaceInterface
	reads atomic.Int32
}

func (c *cluster) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	c.reads.Add(1)
	time.Sleep(10 * time.Millisecond)
	if name != "shop" {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "edge"}}}, nil
}

// A caller that names namespaces that do not exist cannot multiply reads of the API server.
func TestReadsOfUnknownNamespacesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &cluster{}
		n := newNewcomers(api)
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() {
				if _, err := n.labels(t.Context(), "absent"); !apierrors.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		asking.Wait()
		if _, err := n.labels(t.Context(), "absent"); !apierrors.IsNotFound(err) || api.reads.Load() != 1 {
			t.Errorf("got %v after %d reads, want one", err, api.reads.Load())
		}
		if _, err := n.labels(t.Context(), "Not a name"); err == nil || api.reads.Load() != 1 {
			t.Errorf("got %v after %d reads, want none for a name that is not valid", err, api.reads.Load())
		}
		start := time.Now()
		var last error
		for i := range 1000 {
			_, last = n.labels(t.Context(), fmt.Sprintf("absent-%d", i))
		}
		if most := readBurst + int32(readsPerSecond*time.Since(start).Seconds()); api.reads.Load() > most {
			t.Errorf("%d reads, want at most %d", api.reads.Load(), most)
		}
		if !errors.Is(last, errTooManyReads) {
			t.Errorf("beyond the limit: %v", last)
		}
		time.Sleep(time.Second)
		if labels, err := n.labels(t.Context(), "shop"); err != nil || labels["tier"] != "edge" {
			t.Errorf("afterwards: %v, %v", labels, err)
		}
	})
}

// A request does not wait longer than it has time.
func TestReadOfNamespaceWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := newNewcomers(&cluster{}).labels(ctx, "shop"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
	})
}
