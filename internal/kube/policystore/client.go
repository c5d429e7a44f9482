package policystore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
)

// FieldManager owns the status of policies. It is stored in the objects and must not change.
const FieldManager = "quaymaster-controllers"

// Client reads policies from an API server and writes their status.
type Client struct{ rest rest.Interface }

var _ API = (*Client)(nil)

// NewClient returns a client for the API server of the configuration, which it does not modify.
func NewClient(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("create policy client: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	gv := v1alpha1.GroupVersion()
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources support only JSON, whatever other clients of the configuration use.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create policy client: %w", err)
	}
	return &Client{rest: client}, nil
}

// List lists the policies of a kind in all namespaces.
func (c *Client) List(ctx context.Context, kind string, options metav1.ListOptions) (runtime.Object, error) {
	return c.rest.Get().Resource(resource(kind)).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Get()
}

// Watch watches the policies of a kind in all namespaces.
func (c *Client) Watch(ctx context.Context, kind string, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.rest.Get().Resource(resource(kind)).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// ApplyStatus writes the status of a policy if the policy still has the resourceVersion, and returns the new one. It
// overwrites what others wrote, because the controllers own the status.
func (c *Client) ApplyStatus(
	ctx context.Context, key policy.Key, version string, status v1alpha1.PolicyStatus,
) (string, error) {
	metadata := map[string]any{"name": key.Name, "resourceVersion": version}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": key.Kind, "metadata": metadata, "status": status,
	})
	if err != nil {
		return "", fmt.Errorf("apply status: %w", err)
	}
	written, err := c.rest.Patch(types.ApplyYAMLPatchType).
		NamespaceIfScoped(key.Namespace, key.Namespace != "").
		Resource(resource(key.Kind)).Name(key.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)}, metav1.ParameterCodec).
		Body(body).Do(ctx).Get()
	if err != nil {
		return "", fmt.Errorf("apply status: %w", err)
	}
	read, err := meta.Accessor(written)
	if err != nil || read.GetResourceVersion() == "" {
		return "", errors.New("apply status: response has no resourceVersion")
	}
	return read.GetResourceVersion(), nil
}

// resource returns the resource name of a kind.
func resource(kind string) string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}
