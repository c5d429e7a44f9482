package env

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldOwner is the field owner of objects that InstallChart applies.
const fieldOwner = client.FieldOwner("quaymaster-test-env")

// Values are values of the chart, as in its values.yaml.
type Values map[string]any

// InstallChart renders the project's chart and applies the objects that processes outside the cluster need: accounts,
// RBAC, CRDs, webhook configurations and admission policies, but no workloads or Services. It returns when the API
// server serves the custom resources. Unless the values set a certificate mode, webhooks use self-signed certificates,
// which is the mode of StartWebhook.
func (e *Env) InstallChart(ctx context.Context, values Values) error {
	all := Values{"certs": map[string]any{"mode": "self-signed"}}
	maps.Copy(all, values)
	objects, err := RenderChart(all)
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

// RenderChart renders the project's chart as helm template does, hooks last, with the release name and namespace of a
// default installation, and an image unless the values name one.
func RenderChart(values Values) ([]*unstructured.Unstructured, error) {
	objects, err := renderChart(values)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	return objects, nil
}

func renderChart(values Values) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	chart, err := loader.LoadDir(filepath.Join(root, "charts", "quaymaster"))
	if err != nil {
		return nil, err
	}
	all := Values{"image": map[string]any{"repository": "quaymaster"}}
	maps.Copy(all, values)
	// As read from a file: templates and schema expect the types of YAML.
	text, err := yaml.Marshal(all)
	if err != nil {
		return nil, err
	}
	read, err := chartutil.ReadValues(text)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	kube, err := chartutil.ParseKubeVersion(version.DefaultKubeBinaryVersion)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *kube
	release := chartutil.ReleaseOptions{Name: "quaymaster", Namespace: Namespace, Revision: 1, IsInstall: true}
	input, err := chartutil.ToRenderValues(chart, read, release, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, input)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return path.Base(name) == "NOTES.txt" })
	hooks, manifests, err := releaseutil.SortManifests(files, capabilities.APIVersions, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	add := func(manifest string) error {
		object := &unstructured.Unstructured{}
		// Sorting cuts off the last line break, which may belong to a value, and Helm adds it again.
		if err := yaml.Unmarshal([]byte(manifest+"\n"), object); err != nil {
			return err
		}
		objects = append(objects, object)
		return nil
	}
	for _, manifest := range manifests {
		if err := add(manifest.Content); err != nil {
			return nil, err
		}
	}
	for _, hook := range hooks {
		if err := add(hook.Manifest); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// CertManagerObjects returns the flags with the objects of cert-manager that the chart gives to the webhooks.
func CertManagerObjects(values Values) (flags []string, err error) {
	objects, err := RenderChart(values)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return nil, err
		}
		container, _ := containers[0].(map[string]any)
		args, _, err := unstructured.NestedStringSlice(container, "args")
		if err != nil {
			return nil, err
		}
		for _, arg := range args {
			if strings.HasPrefix(arg, "--cert-manager-object=") {
				flags = append(flags, arg)
			}
		}
	}
	return flags, nil
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
