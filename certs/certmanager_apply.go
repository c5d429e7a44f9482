package certs

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

const (
	// fieldManager owns the objects of cert-manager that we apply. It is stored in the objects and must not change.
	fieldManager = "quaymaster-webhook"
	// applyEvery is the longest interval for repairing objects. Changes by others cause it at once, so this is only for
	// changes that are missed.
	applyEvery = 5 * time.Minute
)

// keepApplied applies the objects at once when they are changed or deleted, and repeatedly. Unchanged objects are not
// written.
func (c *CertManager) keepApplied(ctx context.Context) {
	changed := newSignal()
	var watches sync.WaitGroup
	defer watches.Wait()
	// Without cert-manager there is nothing to watch.
	watch := sync.OnceFunc(func() {
		for _, object := range c.o.Request.objects() {
			watches.Go(func() { c.watch(ctx, object, changed.notify) })
		}
	})
	repeat(ctx, c.o.Clock, changed, func() time.Duration {
		reason := c.each(ctx, c.apply)
		if reason == "" {
			watch()
			if c.serving.Load() == nil {
				reason = c.each(ctx, c.ready)
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

func (c *CertManager) resource(w manifest) dynamic.ResourceInterface {
	return c.o.API.Resource(certmanagerv1.SchemeGroupVersion.WithResource(w.resource)).Namespace(c.o.Namespace)
}

// apply applies the object and overwrites changes by others.
func (c *CertManager) apply(ctx context.Context, w manifest) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": certmanagerv1.SchemeGroupVersion.String(), "kind": w.kind,
		// Administrators find the objects, which do not belong to a Helm release, by the label.
		"metadata": map[string]any{
			"namespace": c.o.Namespace, "name": w.name, "labels": map[string]string{"app.kubernetes.io/managed-by": fieldManager},
		},
		"spec": w.spec,
	})
	if err == nil {
		options := metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
		_, err = c.resource(w).Patch(ctx, w.name, types.ApplyYAMLPatchType, body, options)
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", w, err)
	}
	return nil
}

// ready returns an error that describes why the object is not ready.
func (c *CertManager) ready(ctx context.Context, w manifest) error {
	var read certmanagerv1.Certificate // issuers have the same conditions
	found, err := c.resource(w).Get(ctx, w.name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &read)
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", w, err)
	}
	for _, found := range read.Status.Conditions {
		switch {
		case found.Type != certmanagerv1.CertificateConditionReady:
		case found.Status == cmmeta.ConditionTrue:
			return nil
		default:
			return fmt.Errorf("%s is not ready: %s: %s", w, found.Reason, found.Message)
		}
	}
	return fmt.Errorf("%s has no status yet; check that cert-manager's controller is running", w)
}

// watch calls changed when the object is deleted, when what it asks for has changed, and when it can no longer be read,
// until the context ends. cert-manager's own writes of the status are no change.
func (c *CertManager) watch(ctx context.Context, w manifest, changed func()) {
	var generation int64
	watchNamed(ctx, c.resource(w), w.name, func(object *unstructured.Unstructured) {
		before := generation
		if generation = 0; object != nil {
			generation = object.GetGeneration()
		}
		if object == nil || before != 0 && before != generation {
			changed()
		}
	}, func(error) { changed() })
}

// notServed reports whether an error means that the API server does not serve the kind: then it responds as to any
// unknown path, and not with a status that names an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
