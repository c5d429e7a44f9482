package certs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

var certManagerVersion = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}

// ParseObject decodes an Issuer or Certificate of a namespace from JSON.
func ParseObject(text, namespace string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("must be an Issuer or Certificate in JSON: %w", err)
	}
	switch kind := object.GroupVersionKind(); {
	case kind.GroupVersion() != certManagerVersion || kind.Kind != "Issuer" && kind.Kind != "Certificate":
		return nil, fmt.Errorf("must be an Issuer or Certificate of %s; got %s", certManagerVersion, kind)
	case object.GetName() == "" || object.GetNamespace() != namespace:
		return nil, fmt.Errorf("must have a name and the namespace %q; got name %q and namespace %q",
			namespace, object.GetName(), object.GetNamespace())
	}
	return object, nil
}

// keepApplied applies the objects at once when they change, and repeatedly. Unchanged objects are not written.
func (c *CertManager) keepApplied(ctx context.Context) {
	changed := newSignal()
	var watches sync.WaitGroup
	defer watches.Wait()
	// Without cert-manager there is nothing to watch.
	watch := sync.OnceFunc(func() {
		for _, object := range c.o.Objects {
			watches.Go(func() { changed.watch(ctx, c.resource(object), object.GetName()) })
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

// apply applies all objects, overwrites changes by others, and describes the first problem; empty if there is none. While
// no certificate is served, it is a problem that an object is not ready.
func (c *CertManager) apply(ctx context.Context) (applied bool, reason string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, wanted := range c.o.Objects {
		object, err := c.resource(wanted).Apply(ctx, wanted.GetName(), wanted,
			metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if notServed(err) {
			return false, "cert-manager.io/v1 is not served; install cert-manager or choose --cert-mode=self-signed"
		}
		if err != nil {
			return false, fmt.Sprintf("apply %s: %s", describe(wanted), err)
		}
		if problem := unready(object); problem != "" && c.serving.Load() == nil {
			reason = cmp.Or(reason, describe(wanted)+" "+problem)
		}
	}
	return true, reason
}

func (c *CertManager) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	plural := strings.ToLower(object.GetKind()) + "s"
	return c.o.API.Resource(certManagerVersion.WithResource(plural)).Namespace(c.o.Namespace)
}

func describe(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %q", strings.ToLower(object.GetKind()), object.GetName())
}

// conditioned has the conditions of an object of cert-manager.
type conditioned struct {
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// unready describes why the object is not ready; empty if it is.
func unready(object *unstructured.Unstructured) string {
	read, err := typed[conditioned](object)
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	switch ready := meta.FindStatusCondition(read.Status.Conditions, "Ready"); {
	case ready == nil:
		return "has no status yet; check that cert-manager's controller is running"
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("is not ready: %s: %s", ready.Reason, ready.Message)
	}
	return ""
}

// notServed reports whether an error means that the API server does not serve the kind: then it responds as to any
// unknown path, and not with a status that names an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
