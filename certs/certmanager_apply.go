package certs

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// applyEvery is how soon an object that somebody changed or deleted is mended.
	applyEvery = 5 * time.Minute
	// waitEvery is how soon it is tried again while something is missing.
	waitEvery = 2 * time.Second
)

// keepApplied applies the objects again and again. Nothing is written where nothing changed.
func (c *CertManager) keepApplied(ctx context.Context) {
	var applied time.Time // zero until all objects were
	for {
		reason := ""
		if applied.IsZero() || c.o.Clock.Since(applied) >= applyEvery {
			applied = time.Time{}
			if reason = c.apply(ctx); reason == "" {
				applied = c.o.Clock.Now()
			}
		}
		if reason == "" && c.serving.Load() == nil {
			reason = c.progress(ctx)
		}
		c.waitNow(ctx, reason)
		pause := waitEvery
		if reason == "" && c.serving.Load() != nil {
			pause = applyEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-c.o.Clock.After(pause):
		}
	}
}

// waitNow remembers why the objects are not in place. Whoever waits for the first certificate logs that; afterwards we do.
func (c *CertManager) waitNow(ctx context.Context, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || reason == c.waiting {
		return
	}
	c.waiting = reason
	if reason != "" && c.serving.Load() != nil {
		klog.FromContext(ctx).Info("cert-manager cannot be asked to renew the serving certificate; trying again", "reason", reason)
	}
}

// apply is why the objects cannot be applied; empty if they have been.
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

// progress is which object is not ready, and why; empty if all are.
func (c *CertManager) progress(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, object := range c.o.Request.objects() {
		reason, err := c.o.Client.unready(ctx, object)
		if err != nil {
			return err.Error()
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}
