package certs

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// publishIn merges our authorities into the bundles of one configuration and reports whether that changed them.
func publishIn(ctx context.Context, object configuration, merge func(bundle []byte) []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := object.get(ctx)
	if err != nil {
		return false, fmt.Errorf("get %s: %w", object.what, err)
	}
	var bundles [][]byte
	changed := false
	for _, w := range state.webhooks {
		merged := merge(w.Client.CABundle)
		bundles = append(bundles, merged)
		changed = changed || !bytes.Equal(merged, w.Client.CABundle)
	}
	if !changed {
		return false, nil
	}
	body, err := bundlePatch(state, bundles)
	if err != nil {
		return false, fmt.Errorf("patch %s: %w", object.what, err)
	}
	if err := object.patch(ctx, body); err != nil {
		if apierrors.IsConflict(err) {
			// Another replica was faster; retry with what it wrote.
			return publishIn(ctx, object, merge)
		}
		return false, fmt.Errorf("patch %s: %w", object.what, err)
	}
	klog.FromContext(ctx).Info("Updated the certificate authorities in the webhook configuration", "object", object.what)
	return true, nil
}
