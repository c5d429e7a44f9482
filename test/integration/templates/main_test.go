// Package templates_test tests the admission and the audit of objects of which other controllers create Services, on a real
// API server: Gateways, Ingresses and Kafkas, in a cluster without the other kinds.
package templates_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

const (
	namespace = "shop"
	ingress   = "networking.k8s.io/v1 Ingress"
	gateway   = "gateway.networking.k8s.io/v1 Gateway"
	kafka     = "kafka.strimzi.io/v1 Kafka"
	shop      = "example.com/v1 Shop"
)

var shared struct {
	*env.Env
	webhook *env.Webhook
	// values are those of the chart.
	values env.Values
}

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{Audit: true}, setup)) }

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	for _, kind := range []string{gateway, kafka, shop} {
		objects = append(objects, definition(kind))
	}
	for _, object := range objects {
		if err := e.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	// These existed before Quaymaster, with all their mistakes.
	for _, bad := range mistakes {
		object := bad.object("old")
		if err := env.Poll(ctx, "the API of "+bad.kind, func(ctx context.Context) error { return e.Client.Create(ctx, object.DeepCopy()) }); err != nil {
			return err
		}
	}
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	template := `{"group":"example.com","kind":"Shop","resource":"shops","annotations":"spec.doors[].annotations"}`
	var additional map[string]any
	if err := yaml.Unmarshal([]byte(template), &additional); err != nil {
		return err
	}
	shared.values = env.Values{
		"catalogs": []any{"mycloud", "hcloud", "alb"}, "audit": map[string]any{"enabled": true},
		"webhook": map[string]any{
			"url": env.WebhookURL(port), "failurePolicy": map[string]any{"validateService": "Fail", "validateTemplate": "Fail"},
			"serviceTemplates": map[string]any{"additional": []any{additional}},
		},
	}
	if err := e.InstallChart(ctx, shared.values); err != nil {
		return err
	}
	if shared.webhook, err = e.StartWebhook(ctx, port, "--catalogs=mycloud,hcloud,alb", "--service-template="+template); err != nil {
		return err
	}
	return env.Poll(ctx, "the API server to call the webhooks", func(ctx context.Context) error {
		if err := e.Client.Create(ctx, mistakes[0].object("probe"), client.DryRunAll); err == nil {
			return fmt.Errorf("an invalid %s is not rejected yet", mistakes[0].kind)
		}
		good := mistakes[0]
		good.annotations = nil
		return e.Client.Create(ctx, good.object("probe"), client.DryRunAll)
	})
}

// definition returns a minimal CRD of a kind.
func definition(kind string) *unstructured.Unstructured {
	apiVersion, name, _ := strings.Cut(kind, " ")
	group, version, _ := strings.Cut(apiVersion, "/")
	plural := strings.ToLower(name) + "s"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": plural + "." + group, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for tests"},
		},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": name, "plural": plural, "singular": strings.ToLower(name), "listKind": name + "List"},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// mistake is an object with one wrong annotation.
type mistake struct {
	kind string
	// path is where annotations are, and spec what surrounds them, with %s for their JSON.
	path, spec  string
	annotations map[string]string
	// wrong is the wrong key, and words what is said about it.
	wrong, words string
}

var mistakes = []mistake{
	{
		gateway, "spec.infrastructure.annotations", `{"gatewayClassName":"x","infrastructure":{"annotations":%s}}`,
		map[string]string{"load-balancer.hetzner.cloud/lokation": "fsn1", "load-balancer.hetzner.cloud/type": "lb11"},
		"load-balancer.hetzner.cloud/lokation", `did you mean "load-balancer.hetzner.cloud/location"?`,
	},
	{
		ingress, "metadata.annotations", `{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}`,
		map[string]string{"alb.ingress.kubernetes.io/scheme": "public"}, "alb.ingress.kubernetes.io/scheme", "must be one of internal, internet-facing",
	},
	{
		kafka, "spec.kafka.listeners[1].configuration.bootstrap.annotations",
		`{"kafka":{"listeners":[{"name":"a","type":"internal"},{"name":"b","type":"loadbalancer","configuration":{"bootstrap":{"annotations":%s}}}]}}`,
		map[string]string{"service.beta.kubernetes.io/dlb-sheduler": "x"},
		"service.beta.kubernetes.io/dlb-sheduler", `did you mean "service.beta.kubernetes.io/dlb-scheduler"?`,
	},
	{
		shop, "spec.doors[0].annotations", `{"doors":[{"annotations":%s}]}`,
		map[string]string{"load-balancer.hetzner.cloud/lokation": "fsn1"}, "load-balancer.hetzner.cloud/lokation", "unknown annotation",
	},
}

func (m mistake) object(name string) *unstructured.Unstructured {
	apiVersion, kind, _ := strings.Cut(m.kind, " ")
	text, err := yaml.Marshal(m.annotations)
	if err != nil {
		panic(err)
	}
	inline, err := yaml.YAMLToJSON(text)
	if err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	object.SetName(name)
	object.SetNamespace(namespace)
	spec := m.spec
	if strings.Contains(spec, "%s") {
		spec = fmt.Sprintf(spec, inline)
	} else {
		object.SetAnnotations(m.annotations)
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		panic(err)
	}
	object.Object["spec"] = fields
	return object
}

// manifest writes an object to a file, and returns its name and the line of a key.
func manifest(t *testing.T, object *unstructured.Unstructured, key string) (file string, line int) {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), key+":")
	return file, 1 + strings.Count(before, "\n")
}
