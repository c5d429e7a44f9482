package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
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

// fieldOwner is the field owner of objects that InstallChart applies.
const fieldOwner = client.FieldOwner("quaymaster-test-env")

// Values are values of the chart, as in its values.yaml.
type Values map[string]any

// InstallChart renders the project's chart and applies the objects that processes outside the cluster need: accounts,
// RBAC, CRDs, webhook configurations and admission policies, but no workloads or Services. It returns when the API server serves the custom
// resources. Unless the values set a certificate mode, webhooks use self-signed certificates, which is the mode of
// StartWebhook.
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

// definition holds the fields of a CustomResourceDefinition that are used here.
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

// waitServed returns when every CRD among the objects is established and in discovery, which clients use to find its
// kind.
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

// forProcesses reports whether a kind is needed when Quaymaster runs as processes rather than in pods.
func forProcesses(kind string) bool {
	switch kind {
	case "ServiceAccount", "Secret", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding":
		return true
	default:
		return false
	}
}

// RenderChart renders the project's chart, CRDs first, with the release name and namespace of a default installation, and
// an image unless the values name one.
func RenderChart(ctx context.Context, values Values) ([]*unstructured.Unstructured, error) {
	helm, err := Tool("helm")
	if err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	all := Values{"image": map[string]any{"repository": "quaymaster"}}
	maps.Copy(all, values)
	input, err := yaml.Marshal(all)
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
		if len(object.Object) > 0 { // a template may render to comments only
			objects = append(objects, object)
		}
	}
}

// InstallCertManagerCRDs installs the CRDs of the cert-manager objects that the webhooks apply, from the module of
// cert-manager and without its controllers. It returns when the API server serves them.
func (e *Env) InstallCertManagerCRDs(ctx context.Context) error {
	const name = "github.com/cert-manager/cert-manager"
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", name).Output()
	if err != nil {
		return fmt.Errorf("find the CRDs of cert-manager: %w", err)
	}
	var crds []*unstructured.Unstructured
	folder := filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds")
	for _, plural := range []string{"issuers", "certificates"} {
		text, err := os.ReadFile(filepath.Join(folder, "cert-manager.io_"+plural+".yaml"))
		if err != nil {
			return fmt.Errorf("find the CRDs of cert-manager: %w", err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return fmt.Errorf("read the CRD of %s: %w", plural, err)
		}
		if err := e.Client.Create(ctx, crd); err != nil {
			return fmt.Errorf("install the CRD of %s: %w", plural, err)
		}
		crds = append(crds, crd)
	}
	return e.waitServed(ctx, crds)
}
