package certs

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// applyEvery is the longest interval for repairing objects. Changes by others cause it at once, so this is only for
	// changes that are missed.
	applyEvery = 5 * time.Minute
	// waitEvery is the interval for retrying while something is missing.
	waitEvery = 2 * time.Second
)

// keepApplied applies the objects at once when they are changed or deleted, and repeatedly. Unchanged objects are not
// written.
func (c *CertManager) keepApplied(ctx context.Context) {
	changed := make(chan struct{}, 1)
	var watches sync.WaitGroup
	defer watches.Wait()
	// Without cert-manager there is nothing to watch.
	watch := sync.OnceFunc(func() { c.watchObjects(ctx, &watches, changed) })
	var applied time.Time // zero until all objects have been applied
	for {
		reason := ""
		if applied.IsZero() || c.o.Clock.Since(applied) >= applyEvery {
			applied = time.Time{}
			if reason = c.apply(ctx); reason == "" {
				applied = c.o.Clock.Now()
				watch()
			}
		}
		if reason == "" && c.serving.Load() == nil {
			reason = c.progress(ctx)
		}
		c.setWaiting(ctx, reason)
		pause := waitEvery
		if reason == "" && c.serving.Load() != nil {
			pause = applyEvery
		}
		// If another tool keeps changing the objects, writes must be rare.
		select {
		case <-ctx.Done():
			return
		case <-c.o.Clock.After(urgentEvery):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			applied = time.Time{}
		case <-c.o.Clock.After(pause - urgentEvery):
		}
	}
}

// watchObjects sends to changed when the objects must be applied again, until the context ends.
func (c *CertManager) watchObjects(ctx context.Context, watches *sync.WaitGroup, changed chan<- struct{}) {
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // The next attempt sees this change, too.
		}
	}
	for _, object := range c.o.Request.objects() {
		watches.Go(func() { c.o.Client.watch(ctx, object, notify) })
	}
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

// apply applies the objects and describes why that failed; empty if it succeeded.
func (c *CertManager) apply(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, object := range c.o.Request.objects() {
		err := c.o.Client.apply(ctx, object)
		if notServed(err) {
			return "cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed"
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// progress describes which object is not ready and why; empty if all are ready.
func (c *CertManager) progress(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, object := range c.o.Request.objects() {
		reason, err := c.o.Client.notReadyReason(ctx, object)
		if err != nil {
			return err.Error()
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}
