package certs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
)

// configuration is a webhook configuration of either kind. It is only read and patched by name, because the role allows
// nothing else.
type configuration struct {
	// what identifies the object in messages.
	what  string
	get   func(ctx context.Context) (*configurationState, error)
	patch func(ctx context.Context, body []byte) error
}

// configurationState holds the parts of a configuration that concern certificates.
type configurationState struct {
	resourceVersion string
	webhooks        []registration
}

type registration struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

// Configurations holds the names of our own webhook configurations; empty if there is no configuration of the kind.
type Configurations struct{ Mutating, Validating string }

func (c Configurations) objects(api client.AdmissionregistrationV1Interface) []configuration {
	var objects []configuration
	if c.Mutating != "" {
		objects = append(objects, mutating(api, c.Mutating))
	}
	if c.Validating != "" {
		objects = append(objects, validating(api, c.Validating))
	}
	return objects
}

func mutating(api client.AdmissionregistrationV1Interface, name string) configuration {
	read := func(object *admissionregistrationv1.MutatingWebhookConfiguration) *configurationState {
		state := &configurationState{resourceVersion: object.ResourceVersion}
		for _, w := range object.Webhooks {
			state.webhooks = append(state.webhooks, registration{w.Name, w.ClientConfig})
		}
		return state
	}
	return object("mutatingwebhookconfiguration", name, api.MutatingWebhookConfigurations(), read)
}

func validating(api client.AdmissionregistrationV1Interface, name string) configuration {
	read := func(object *admissionregistrationv1.ValidatingWebhookConfiguration) *configurationState {
		state := &configurationState{resourceVersion: object.ResourceVersion}
		for _, w := range object.Webhooks {
			state.webhooks = append(state.webhooks, registration{w.Name, w.ClientConfig})
		}
		return state
	}
	return object("validatingwebhookconfiguration", name, api.ValidatingWebhookConfigurations(), read)
}

// access holds the methods of a typed client that the role may use.
type access[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*T, error)
	Patch(
		ctx context.Context, name string, kind types.PatchType, body []byte, o metav1.PatchOptions, subresources ...string,
	) (*T, error)
}

// object returns the configuration of a kind and name; read extracts the parts that both kinds have in common.
func object[T any](kind, name string, api access[T], read func(*T) *configurationState) configuration {
	return configuration{
		what: fmt.Sprintf("%s %q", kind, name),
		get: func(ctx context.Context) (*configurationState, error) {
			object, err := api.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return read(object), nil
		},
		patch: func(ctx context.Context, body []byte) error {
			_, err := api.Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
			return err
		},
	}
}

// bundlePatch returns a patch that sets the bundles of webhooks by name, if the object has not changed in the meantime.
func bundlePatch(resourceVersion string, bundles map[string][]byte) ([]byte, error) {
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type hook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	var hooks []hook
	for name, bundle := range bundles {
		hooks = append(hooks, hook{name, clientConfig{bundle}})
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": resourceVersion},
		"webhooks": hooks,
	})
}

// host returns the name that the API server expects in the certificate.
func (r registration) host() (string, error) {
	if service := r.client.Service; service != nil {
		return service.Name + "." + service.Namespace + ".svc", nil
	}
	if r.client.URL == nil {
		return "", fmt.Errorf("webhook %q has neither service nor url", r.name)
	}
	u, err := url.Parse(*r.client.URL)
	if err != nil {
		return "", fmt.Errorf("webhook %q: parse url: %w", r.name, err)
	}
	return u.Hostname(), nil
}
