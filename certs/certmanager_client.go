package certs

import (
	"context"
	"encoding/json"
	"fmt"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// fieldManager owns the objects of cert-manager that we apply. It is stored in the objects and must not change.
const fieldManager = "quaymaster-webhook"

// CertManagerClient applies, reads and watches the objects of cert-manager in one namespace.
type CertManagerClient struct {
	API       dynamic.Interface
	Namespace string
}

func (c *CertManagerClient) resource(w manifest) dynamic.ResourceInterface {
	return c.API.Resource(certmanagerv1.SchemeGroupVersion.WithResource(w.resource)).Namespace(c.Namespace)
}

// apply applies the object and overwrites changes by others.
func (c *CertManagerClient) apply(ctx context.Context, w manifest) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": certmanagerv1.SchemeGroupVersion.String(), "kind": w.kind,
		"metadata": map[string]any{"namespace": c.Namespace, "name": w.name, "labels": labels()},
		"spec":     w.spec,
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
func (c *CertManagerClient) ready(ctx context.Context, w manifest) error {
	// Issuers have the same conditions.
	var read struct {
		Status certmanagerv1.CertificateStatus `json:"status"`
	}
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
func (c *CertManagerClient) watch(ctx context.Context, w manifest, changed func()) {
	var generation int64
	observe := func(object *unstructured.Unstructured) {
		before := generation
		if generation = 0; object != nil {
			generation = object.GetGeneration()
		}
		if object == nil || before != 0 && before != generation {
			changed()
		}
	}
	failed := func(error) { changed() }
	watchNamed(ctx, c.resource(w), named[*unstructured.Unstructured]{w.name, observe, failed})
}

// notServed reports whether an error means that the API server does not serve the kind: then it responds as to any
// unknown path, and not with a status that names an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
