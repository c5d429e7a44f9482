package certs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// keepApplied applies the objects at once when they change, and repeatedly. Unchanged objects are not written.
func (c *CertManager) keepApplied(ctx context.Context) {
	changed := newSignal()
	var watches sync.WaitGroup
	defer watches.Wait()
	// Without cert-manager there is nothing to watch.
	watch := sync.OnceFunc(func() {
		for _, object := range c.o.Request.objects() {
			watches.Go(func() { changed.watch(ctx, c.resource(object), object.name) })
		}
	})
	repeat(ctx, c.o.Clock, changed, func() time.Duration {
		applied, reason := c.apply(ctx)
		if applied {
			watch()
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
	if ctx.Err() == nil && c.waiting.set(reason) && reason != "" && c.serving.Load() != nil {
		klog.FromContext(ctx).Info("Failed to request the renewal of the serving certificate from cert-manager, will retry",
			"reason", reason)
	}
}

// apply applies all objects, and describes the first problem; empty if there is none. While no certificate is served, it
// is a problem that an object is not ready.
func (c *CertManager) apply(ctx context.Context) (applied bool, reason string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, w := range c.o.Request.objects() {
		object, err := c.applyOne(ctx, w)
		if notServed(err) {
			return false, "cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed"
		}
		if err != nil {
			return false, fmt.Sprintf("apply %s: %s", w, err)
		}
		if c.serving.Load() == nil {
			reason = cmp.Or(reason, w.unready(object))
		}
	}
	return true, reason
}

func (c *CertManager) resource(w manifest) dynamic.ResourceInterface {
	return c.o.API.Resource(certmanagerv1.SchemeGroupVersion.WithResource(strings.ToLower(w.kind) + "s")).Namespace(c.o.Namespace)
}

// applyOne applies the object, overwrites changes by others, and returns its state.
func (c *CertManager) applyOne(ctx context.Context, w manifest) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": certmanagerv1.SchemeGroupVersion.String(), "kind": w.kind,
		// Administrators find the objects, which do not belong to a Helm release, by the label.
		"metadata": map[string]any{
			"namespace": c.o.Namespace, "name": w.name, "labels": map[string]string{"app.kubernetes.io/managed-by": fieldManager},
		},
		"spec": w.spec,
	})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	return c.resource(w).Patch(ctx, w.name, types.ApplyYAMLPatchType, body, options)
}

// unready describes why the object is not ready; empty if it is.
func (w manifest) unready(object *unstructured.Unstructured) string {
	read, err := typed[certmanagerv1.Certificate](object) // issuers have the same conditions
	if err != nil {
		return fmt.Sprintf("read %s: %s", w, err)
	}
	for _, found := range read.Status.Conditions {
		switch {
		case found.Type != certmanagerv1.CertificateConditionReady:
		case found.Status == cmmeta.ConditionTrue:
			return ""
		default:
			return fmt.Sprintf("%s is not ready: %s: %s", w, found.Reason, found.Message)
		}
	}
	return fmt.Sprintf("%s has no status yet; check that cert-manager's controller is running", w)
}

// notServed reports whether an error means that the API server does not serve the kind: then it responds as to any
// unknown path, and not with a status that names an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
