package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldOwner owns what InstallChart applies.
const fieldOwner = client.FieldOwner("quaymaster-test-env")

// Values are values of the chart, as in its values.yaml.
type Values map[string]any

// InstallChart renders the project's chart and applies what processes outside the cluster need of it: accounts,
// rights, CRDs and webhook configurations. Workloads and what serves them stay out. It returns when the API server serves
// what the CRDs define. Without a word about certificates the webhooks make their own, as StartWebhook has it.
func (e *Env) InstallChart(ctx context.Context, values Values) error {
	all := Values{"certs": map[string]any{"mode": "self-signed"}}
	maps.Copy(all, values)
	objects, err := RenderChart(ctx, all)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(e.Client.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	for _, object := range objects {
		if !forProcesses(object.GetKind()) {
			continue
		}
		apply := client.ApplyConfigurationFromUnstructured(object)
		if err := e.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("install the chart: apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	if err := e.waitServed(ctx, objects); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	return nil
}

// definition is what matters here of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural   string `json:"plural"`
			ListKind string `json:"listKind"`
		} `json:"names"`
		Versions []struct {
			Name string `json:"name"`
		} `json:"versions"`
	} `json:"spec"`
}

// waitServed returns when every CRD among the objects is established and in discovery, where clients look for its kind.
func (e *Env) waitServed(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd definition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", object.GetName(), err)
		}
		for _, version := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.ListKind}
			served := func(ctx context.Context) error {
				list := &unstructured.UnstructuredList{}
				list.SetGroupVersionKind(kind)
				return e.Client.List(ctx, list, client.Limit(1))
			}
			if err := Poll(ctx, "the API of "+crd.Spec.Names.Plural, served); err != nil {
				return err
			}
		}
	}
	return nil
}

// forProcesses tells the kinds that matter when Quaymaster runs as processes from those that run it in pods.
func forProcesses(kind string) bool {
	switch kind {
	case "ServiceAccount", "Secret", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return true
	default:
		return false
	}
}

// RenderChart renders the project's chart, CRDs first, with the release name and namespace of an ordinary installation.
func RenderChart(ctx context.Context, values Values) ([]*unstructured.Unstructured, error) {
	helm, err := Tool("helm")
	if err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	input, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	cmd := exec.CommandContext(ctx, helm, "template", "quaymaster", filepath.Join(root, "charts", "quaymaster"),
		"--namespace", Namespace, "--include-crds", "--values", "-")
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("render the chart: %w: %s", err, strings.TrimSpace(stderr.String()))
	}

	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(&stdout, 4<<10)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("render the chart: %w", err)
		}
		if len(object.Object) > 0 { // a template may render to nothing but comments
			objects = append(objects, object)
		}
	}
}
