package certs

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// applyEvery is the longest interval for repairing objects. Changes by others cause it at once, so this is only for
// changes that are missed.
const applyEvery = 5 * time.Minute

// keepApplied applies the objects at once when they are changed or deleted, and repeatedly. Unchanged objects are not
// written.
func (c *CertManager) keepApplied(ctx context.Context) {
	changed := newSignal()
	var watches sync.WaitGroup
	defer watches.Wait()
	// Without cert-manager there is nothing to watch.
	watch := sync.OnceFunc(func() {
		for _, object := range c.o.Request.objects() {
			watches.Go(func() { c.o.Client.watch(ctx, object, changed.notify) })
		}
	})
	repeat(ctx, c.o.Clock, changed, func() time.Duration {
		reason := c.each(ctx, c.o.Client.apply)
		if reason == "" {
			watch()
			if c.serving.Load() == nil {
				reason = c.each(ctx, c.o.Client.ready)
			}
		}
		c.setWaiting(ctx, reason)
		if reason != "" || c.serving.Load() == nil {
			return retryEvery
		}
		return applyEvery
	})
}

// setWaiting records why the objects are not ready. Trust logs the reason until the first certificate is served;
// afterwards it is logged here.
func (c *CertManager) setWaiting(ctx context.Context, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || reason == c.waiting {
		return
	}
	c.waiting = reason
	if reason != "" && c.serving.Load() != nil {
		klog.FromContext(ctx).Info("Failed to request the renewal of the serving certificate from cert-manager, will retry",
			"reason", reason)
	}
}

// each does something with each of the objects and describes the first problem; empty if there is none.
func (c *CertManager) each(ctx context.Context, do func(context.Context, manifest) error) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, object := range c.o.Request.objects() {
		err := do(ctx, object)
		if notServed(err) {
			return "cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed"
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}
