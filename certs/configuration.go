package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/trust"
)

// configuration is a webhook configuration of either kind. It is only read, watched and patched by name, because the
// role allows nothing else.
type configuration struct {
	// kind is mutating or validating, and what identifies the object in messages.
	kind, what string
	get        func(ctx context.Context) (*configurationState, error)
	patch      func(ctx context.Context, body []byte) error
	// watch calls changed with every state, nil if the object does not exist, and failed if it cannot be read, until the
	// context ends.
	watch func(ctx context.Context, changed func(*configurationState), failed func(error))
}

// configurationState holds the parts of a configuration that concern certificates.
type configurationState struct {
	// reference refers to the object in Events.
	reference       *corev1.ObjectReference
	resourceVersion string
	webhooks        []trust.Webhook
}

// Configurations holds the names of our own webhook configurations; empty if there is no configuration of the kind.
type Configurations struct{ Mutating, Validating string }

func (c Configurations) objects(api client.AdmissionregistrationV1Interface) []configuration {
	var objects []configuration
	if c.Mutating != "" {
		objects = append(objects, object(
			"mutating", "MutatingWebhookConfiguration", c.Mutating, api.MutatingWebhookConfigurations(),
			func(o *admissionregistrationv1.MutatingWebhookConfiguration) (all []trust.Webhook) {
				for _, w := range o.Webhooks {
					all = append(all, trust.Webhook{Name: w.Name, Client: w.ClientConfig})
				}
				return all
			},
		))
	}
	if c.Validating != "" {
		objects = append(objects, object(
			"validating", "ValidatingWebhookConfiguration", c.Validating, api.ValidatingWebhookConfigurations(),
			func(o *admissionregistrationv1.ValidatingWebhookConfiguration) (all []trust.Webhook) {
				for _, w := range o.Webhooks {
					all = append(all, trust.Webhook{Name: w.Name, Client: w.ClientConfig})
				}
				return all
			},
		))
	}
	return objects
}

// access holds the methods of a typed client that the role may use.
type access[T any, L runtime.Object] interface {
	watcher[L]
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Patch(
		ctx context.Context, name string, kind types.PatchType, body []byte, o metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// object returns the configuration of a name; webhooks returns its webhooks, whose types differ between the kinds.
func object[T interface {
	comparable
	metav1.Object
}, L runtime.Object](
	kind, apiKind, name string, api access[T, L], webhooks func(T) []trust.Webhook,
) configuration {
	read := func(o T) *configurationState {
		if o == *new(T) {
			return nil
		}
		reference := &corev1.ObjectReference{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: apiKind, Name: name, UID: o.GetUID(),
		}
		return &configurationState{reference, o.GetResourceVersion(), webhooks(o)}
	}
	return configuration{
		kind: kind,
		what: fmt.Sprintf("%swebhookconfiguration %q", kind, name),
		get: func(ctx context.Context) (*configurationState, error) {
			o, err := api.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return read(o), nil
		},
		patch: func(ctx context.Context, body []byte) error {
			_, err := api.Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
			return err
		},
		watch: func(ctx context.Context, changed func(*configurationState), failed func(error)) {
			watchNamed(ctx, api, named[T]{name, func(o T) { changed(read(o)) }, failed})
		},
	}
}

// publishIn changes the bundles of all webhooks of a configuration and reports whether there was something to change.
func publishIn(ctx context.Context, object configuration, merge func(bundle []byte) []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := object.get(ctx)
	if err != nil {
		return false, fmt.Errorf("get %s: %w", object.what, err)
	}
	// A patch of only some webhooks could change their order.
	var hooks []map[string]any
	changed := false
	for _, w := range state.webhooks {
		merged := merge(w.Client.CABundle)
		hooks = append(hooks, map[string]any{"name": w.Name, "clientConfig": map[string]any{"caBundle": merged}})
		changed = changed || !bytes.Equal(merged, w.Client.CABundle)
	}
	if !changed {
		return false, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": state.resourceVersion}, "webhooks": hooks,
	})
	if err == nil {
		err = object.patch(ctx, body)
	}
	if apierrors.IsConflict(err) {
		return publishIn(ctx, object, merge) // another replica was faster
	}
	if err != nil {
		return false, fmt.Errorf("patch %s: %w", object.what, err)
	}
	klog.FromContext(ctx).Info("Updated the certificate authorities in the webhook configuration", "object", object.what)
	return true, nil
}
