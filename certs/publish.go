package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// publishIn adds our authorities to the bundles of one configuration where they are missing.
func publishIn(ctx context.Context, object configuration, ours []*x509.Certificate, clock clock.PassiveClock) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := object.get(ctx)
	if err != nil {
		return fmt.Errorf("get %s: %w", object.what, err)
	}
	bundles := map[string][]byte{}
	for _, w := range state.webhooks {
		if merged := mergeBundle(w.client.CABundle, ours, clock.Now()); !bytes.Equal(merged, w.client.CABundle) {
			bundles[w.name] = merged
		}
	}
	if len(bundles) == 0 {
		return nil
	}
	body, err := bundlePatch(state.resourceVersion, bundles)
	if err != nil {
		return fmt.Errorf("patch %s: %w", object.what, err)
	}
	if err := object.patch(ctx, body); err != nil {
		if apierrors.IsConflict(err) {
			// Another replica was faster; retry with what it wrote.
			return publishIn(ctx, object, ours, clock)
		}
		return fmt.Errorf("patch %s: %w", object.what, err)
	}
	klog.FromContext(ctx).Info("Added the certificate authority to the webhook configuration", "object", object.what)
	return nil
}
