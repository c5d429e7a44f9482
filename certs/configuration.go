package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

// Configurations holds the names of our own webhook configurations; empty if there is no configuration of the kind.
type Configurations struct{ Mutating, Validating string }

// configuration is a webhook configuration of either kind. It is only read, watched and patched by name, because the
// role allows nothing else.
type configuration struct {
	// kind is mutating or validating.
	kind, name string
	api        dynamic.ResourceInterface
}

func (c configuration) String() string {
	return fmt.Sprintf("%swebhookconfiguration %q", c.kind, c.name)
}

func (c Configurations) objects(api dynamic.Interface) []configuration {
	var objects []configuration
	for _, c := range []configuration{{kind: "mutating", name: c.Mutating}, {kind: "validating", name: c.Validating}} {
		if c.name != "" {
			c.api = api.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(c.kind + "webhookconfigurations"))
			objects = append(objects, c)
		}
	}
	return objects
}

// webhooksOf returns the webhooks of a configuration. The kinds differ only in fields that do not concern certificates.
func webhooksOf(object *unstructured.Unstructured) ([]admissionregistrationv1.ValidatingWebhook, error) {
	read, err := typed[admissionregistrationv1.ValidatingWebhookConfiguration](object)
	return read.Webhooks, err
}

// publish changes the bundles of all webhooks and reports whether there was something to change.
func (c configuration) publish(ctx context.Context, merge func(bundle []byte) []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := c.api.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("get %s: %w", c, err)
	}
	webhooks, err := webhooksOf(object)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", c, err)
	}
	add := func(path string, value any) map[string]any {
		return map[string]any{"op": "add", "path": path, "value": value}
	}
	// The API server rejects the patch if the object has changed, so that the positions of the webhooks are right.
	patch := []any{add("/metadata/resourceVersion", object.GetResourceVersion())}
	for i, w := range webhooks {
		if merged := merge(w.ClientConfig.CABundle); !bytes.Equal(merged, w.ClientConfig.CABundle) {
			patch = append(patch, add(fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), merged))
		}
	}
	if len(patch) == 1 {
		return false, nil
	}
	body, err := json.Marshal(patch)
	if err == nil {
		_, err = c.api.Patch(ctx, c.name, types.JSONPatchType, body, metav1.PatchOptions{})
	}
	if apierrors.IsConflict(err) {
		return c.publish(ctx, merge) // another replica was faster
	}
	if err != nil {
		return false, fmt.Errorf("patch %s: %w", c, err)
	}
	klog.FromContext(ctx).Info("Updated the certificate authorities in the webhook configuration", "object", c.String())
	return true, nil
}
