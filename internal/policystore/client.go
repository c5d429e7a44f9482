package policystore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/policy"
)

// FieldManager owns the status of policies: it must not change.
const FieldManager = "quaymaster-controllers"

// Client reads policies from an API server and writes their status.
type Client struct{ rest rest.Interface }

var _ API = (*Client)(nil)

// NewClient makes a client that talks to the API server of the configuration, which it leaves as it is.
func NewClient(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make a client of policies: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	gv := v1alpha1.GroupVersion()
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources know JSON, whatever other clients with the configuration speak.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of policies: %w", err)
	}
	return &Client{rest: client}, nil
}

// Served tells whether the API server knows both kinds of policies. Every account may ask that.
func (c *Client) Served(ctx context.Context) (bool, error) {
	found := &metav1.APIResourceList{}
	err := c.rest.Get().AbsPath("/apis", v1alpha1.Group, v1alpha1.GroupVersion().Version).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask which policies the API server knows: %w", err)
	}
	known := map[string]bool{}
	for _, resource := range found.APIResources {
		known[resource.Kind] = known[resource.Kind] || !strings.Contains(resource.Name, "/")
	}
	return known[v1alpha1.KindLoadBalancerPolicy] && known[v1alpha1.KindClusterLoadBalancerPolicy], nil
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

// ApplyStatus writes the status of a policy, provided that the policy still has its resourceVersion, and gives the new one. What
// others wrote there is overruled: the controllers own the status.
func (c *Client) ApplyStatus(ctx context.Context, key policy.Key, version string, status v1alpha1.PolicyStatus) (string, error) {
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
	force := true
	raw, err := c.rest.Patch(types.ApplyYAMLPatchType).
		NamespaceIfScoped(key.Namespace, key.Namespace != "").Resource(resource(key.Kind)).Name(key.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager, Force: &force}, metav1.ParameterCodec).
		Body(body).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("apply status: %w", err)
	}
	var written metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &written); err != nil {
		return "", fmt.Errorf("apply status: %w", err)
	}
	if written.ResourceVersion == "" {
		return "", errors.New("apply status: the answer has no resourceVersion")
	}
	return written.ResourceVersion, nil
}

// resource is what paths call a kind.
func resource(kind string) string {
	return strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
}
