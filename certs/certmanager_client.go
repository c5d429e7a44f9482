package certs

import (
	"context"
	"encoding/json"
	"fmt"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// fieldManager owns the objects of cert-manager that we apply. It is stored in the objects and must not change.
const fieldManager = "quaymaster-webhook"

// CertManagerClient applies and reads the objects of cert-manager in one namespace.
type CertManagerClient struct {
	rest      rest.Interface
	namespace string
}

// NewCertManagerClient returns a client for the API server of the configuration, which it does not modify.
func NewCertManagerClient(cfg *rest.Config, namespace string) (*CertManagerClient, error) {
	scheme := runtime.NewScheme()
	if err := certmanagerv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("create cert-manager client: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	gv := certmanagerv1.SchemeGroupVersion
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources support only JSON, whatever other clients of the configuration use.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create cert-manager client: %w", err)
	}
	return &CertManagerClient{rest: client, namespace: namespace}, nil
}

// apply applies the object and overwrites changes by others.
func (c *CertManagerClient) apply(ctx context.Context, w manifest) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": certmanagerv1.SchemeGroupVersion.String(), "kind": w.kind,
		"metadata": map[string]any{"namespace": c.namespace, "name": w.name, "labels": labels()},
		"spec":     w.spec,
	})
	if err != nil {
		return fmt.Errorf("apply %s: %w", w, err)
	}
	force := true
	if err := c.rest.Patch(types.ApplyYAMLPatchType).Namespace(c.namespace).Resource(w.resource).Name(w.name).
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager, Force: &force}, metav1.ParameterCodec).
		Body(body).Do(ctx).Error(); err != nil {
		return fmt.Errorf("apply %s: %w", w, err)
	}
	return nil
}

// condition is a status condition, in the form common to all objects of cert-manager.
type condition struct {
	Type    string                 `json:"type"`
	Status  cmmeta.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// notReadyReason describes why the object is not ready; empty if it is.
func (c *CertManagerClient) notReadyReason(ctx context.Context, w manifest) (string, error) {
	raw, err := c.rest.Get().Namespace(c.namespace).Resource(w.resource).Name(w.name).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("get %s: %w", w, err)
	}
	var read struct {
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return "", fmt.Errorf("get %s: %w", w, err)
	}
	for _, found := range read.Status.Conditions {
		switch {
		case found.Type != string(certmanagerv1.CertificateConditionReady): // Issuers use the same type
		case found.Status == cmmeta.ConditionTrue:
			return "", nil
		default:
			return fmt.Sprintf("%s is not ready: %s: %s", w, found.Reason, found.Message), nil
		}
	}
	return fmt.Sprintf("%s has no status yet; check that cert-manager's controller is running", w), nil
}

// notServed reports whether an error means that the API server does not serve the kind: then it responds as to any
// unknown path, and not with a status that names an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
