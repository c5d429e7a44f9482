package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/tool/audit"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/test/builder"
)

// cluster is a cluster with objects of other kinds, of which served are the resources.
type cluster struct {
	served  []*metav1.APIResourceList
	objects []*unstructured.Unstructured
	// refuse is the error of each list of these objects.
	refuse error
}

// options returns the options of an audit of the cluster, and what is listed of other groups.
func (c cluster) options() (o audit.Options, listed func() []string) {
	lists := map[schema.GroupVersionResource]string{}
	for _, name := range []string{"loadbalancerpolicies", "clusterloadbalancerpolicies"} {
		lists[schema.GroupVersionResource{Group: "quaymaster.dev", Version: "v1alpha1", Resource: name}] = "PolicyList"
	}
	for _, list := range c.served {
		for _, r := range list.APIResources[1:] { // the first is a subresource
			lists[schema.FromAPIVersionAndKind(list.GroupVersion, "").GroupVersion().WithResource(r.Name)] = r.Kind + "List"
		}
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	for _, o := range c.objects {
		for resource, kind := range lists {
			if resource.GroupVersion().String() == o.GetAPIVersion() && kind == o.GetKind()+"List" {
				if err := objects.Tracker().Create(resource, o, o.GetNamespace()); err != nil {
					panic(err)
				}
			}
		}
	}
	if c.refuse != nil {
		objects.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetResource().Group != "quaymaster.dev", nil, c.refuse
		})
	}
	api := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"tier": "front"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	)
	api.Resources = c.served
	return audit.Options{API: api, Objects: objects, DefaultClass: true}, func() []string {
		var all []string
		for _, action := range objects.Actions() {
			if r := action.GetResource(); r.Group != "quaymaster.dev" {
				all = append(all, strings.TrimSpace(r.Version+" "+r.Resource+"."+r.Group+" "+action.GetNamespace()))
			}
		}
		return all
	}
}

// resource describes a resource of a group and version.
func resource(groupVersion, name, kind string, namespaced bool) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{
		{Name: name + "/status", Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "update"}},
		{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list"}},
	}}
}

// object returns an object with annotations in its spec.
func object(apiVersion, kind, namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"infrastructure": map[string]any{"annotations": map[string]any{
			"load-balancer.hetzner.cloud/lokation": "fsn1",
		}}},
	}}
	o.SetName("edge")
	o.SetNamespace(namespace)
	o.SetUID("1")
	return o
}

const gateways = "gateway.networking.k8s.io/"

// Only kinds that the cluster serves are listed, once, in the preferred version that has them, and only in the namespaces
// that are audited.
func TestKinds(t *testing.T) {
	both := []*metav1.APIResourceList{
		resource(gateways+"v1", "gateways", "Gateway", true), resource(gateways+"v1beta1", "gateways", "Gateway", true),
	}
	walls := resource("example.com/v1", "walls", "Wall", false)
	wall := template.Template{Group: "example.com", Kind: "Wall", Annotations: "spec.infrastructure.annotations"}
	deleted := object(gateways+"v1", "Gateway", "shop")
	now := metav1.Now()
	deleted.SetDeletionTimestamp(&now)
	plain := object(gateways+"v1", "Gateway", "shop")
	unstructured.RemoveNestedField(plain.Object, "spec", "infrastructure")
	for name, tc := range map[string]struct {
		cluster cluster
		change  func(*audit.Options)
		listed  []string
		checked map[string]int
	}{
		"none": {cluster{}, nil, nil, nil},
		"another kind of the group": {
			cluster{served: []*metav1.APIResourceList{resource(gateways+"v1", "httproutes", "HTTPRoute", true)}}, nil, nil, nil,
		},
		"two versions": {
			cluster{served: both, objects: []*unstructured.Unstructured{object(gateways+"v1", "Gateway", "shop")}}, nil,
			[]string{"v1 gateways.gateway.networking.k8s.io"}, map[string]int{"Gateway": 1},
		},
		"not in the preferred version": {
			cluster{
				served:  []*metav1.APIResourceList{resource(gateways+"v1", "httproutes", "HTTPRoute", true), both[1]},
				objects: []*unstructured.Unstructured{object(gateways+"v1beta1", "Gateway", "shop")},
			}, nil,
			[]string{"v1beta1 gateways.gateway.networking.k8s.io"}, map[string]int{"Gateway": 1},
		},
		"without annotations": {
			cluster{served: both, objects: []*unstructured.Unstructured{plain}}, nil, []string{"v1 gateways.gateway.networking.k8s.io"}, nil,
		},
		"being deleted": {
			cluster{served: both, objects: []*unstructured.Unstructured{deleted}}, nil, []string{"v1 gateways.gateway.networking.k8s.io"}, nil,
		},
		"one namespace": {
			cluster{served: []*metav1.APIResourceList{both[0], walls}, objects: []*unstructured.Unstructured{
				object(gateways+"v1", "Gateway", "shop"), object(gateways+"v1", "Gateway", "other"),
			}},
			func(o *audit.Options) { o.Namespace, o.Templates = "shop", []template.Template{wall} },
			[]string{"v1 gateways.gateway.networking.k8s.io shop"}, map[string]int{"Gateway": 1},
		},
		"selected namespaces, and objects without one": {
			cluster{served: []*metav1.APIResourceList{both[0], walls}, objects: []*unstructured.Unstructured{
				object(gateways+"v1", "Gateway", "shop"), object(gateways+"v1", "Gateway", "other"), object("example.com/v1", "Wall", ""),
			}},
			func(o *audit.Options) {
				o.Templates, o.Selector = []template.Template{wall}, labels.SelectorFromSet(labels.Set{"tier": "front"})
			},
			[]string{"v1 gateways.gateway.networking.k8s.io", "v1 walls.example.com"}, map[string]int{"Gateway": 1, "Wall": 1},
		},
		"no catalog of Ingresses": {
			cluster{served: []*metav1.APIResourceList{resource("networking.k8s.io/v1", "ingresses", "Ingress", true)}},
			func(o *audit.Options) { o.Catalogs = []string{"hcloud"} }, nil, nil,
		},
		"a catalog of Ingresses": {
			cluster{served: []*metav1.APIResourceList{resource("networking.k8s.io/v1", "ingresses", "Ingress", true)}},
			func(o *audit.Options) { o.Catalogs = []string{"alb"} }, []string{"v1 ingresses.networking.k8s.io"}, nil,
		},
		"Services only": {
			cluster{served: both, objects: []*unstructured.Unstructured{object(gateways+"v1", "Gateway", "shop")}},
			func(o *audit.Options) { o.ServicesOnly = true }, nil, nil,
		},
		"a CRD that is deleted in the meantime": {
			cluster{served: both, refuse: apierrors.NewNotFound(schema.GroupResource{}, "")}, nil,
			[]string{"v1 gateways.gateway.networking.k8s.io"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, listed := tc.cluster.options()
			if tc.change != nil {
				tc.change(&o)
			}
			var invalid []corev1.ObjectReference
			o.OnInvalid = func(of corev1.ObjectReference, _ []finding.Finding) { invalid = append(invalid, of) }
			found, err := audit.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.listed, listed()); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.checked, found.Counts.Checked); diff != "" || len(found.Results) != len(tc.checked) {
				t.Errorf("%+v, checked (-want +got):\n%s", found.Results, diff)
			}
			for _, of := range invalid {
				if strings.Contains(of.APIVersion, "/") != (of.Kind == "Gateway" || of.Kind == "Wall") || of.UID != "1" || of.Name != "edge" {
					t.Errorf("reference %+v", of)
				}
			}
			if len(invalid) != len(tc.checked) {
				t.Errorf("%d are invalid", len(invalid))
			}
		})
	}
}

// A kind that the user may not list, or the kinds themselves, are a problem with a remedy. What can be read is reported.
func TestKindsWithoutRights(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	served := []*metav1.APIResourceList{resource(gateways+"v1", "gateways", "Gateway", true)}
	for want, tc := range map[string]struct {
		refuse error
		lookup string // the part of discovery that is refused
	}{
		"permission to list gateways.gateway.networking.k8s.io is required; ask an administrator to grant it: ": {forbidden, "none"},
		"permission to get /apis is required; ask an administrator to grant it: ":                               {nil, "group"},
		"permission to get /apis/gateway.networking.k8s.io/v1 is required; ask an administrator to grant it: ":  {nil, "resource"},
	} {
		o, _ := cluster{served: served, refuse: tc.refuse}.options()
		o.API.(*fake.Clientset).PrependReactor("get", tc.lookup, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, forbidden
		})
		if _, err := o.API.CoreV1().Services("shop").Create(t.Context(), builder.Service(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		found, err := audit.Run(t.Context(), o)
		if err != nil || len(found.Unread) != 1 || !strings.HasPrefix(found.Unread[0].Error(), want) || found.Counts.Checked["Service"] != 1 {
			t.Errorf("%+v, %v; want %s", found, err, want)
		}
	}
}

// The audit finds in stored objects what the linter finds in their manifests, at the same paths.
func TestTemplatesLikeTheLinter(t *testing.T) {
	files, err := filepath.Glob("../lint/testdata/templates/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var c cluster
	kinds := map[string]bool{}
	for _, one := range template.BuiltIn() {
		if group := one.Group + "/v1"; !kinds[group+one.Kind] {
			kinds[group+one.Kind] = true
			c.served = append(c.served, resource(group, one.Resource, one.Kind, true))
		}
	}
	linter := &lint.Linter{}
	var want []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "ip: true", `ip: "true"`)) // what is no string cannot be stored
		results, _ := linter.Files([]manifest.File{manifest.Parse(name, text, linter.Wanted)}, lint.NewReviewer(lint.ReviewerOptions{DefaultClass: true}))
		want = append(want, lines(results)...)
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			group, _, _ := strings.Cut(o.GetAPIVersion(), "/")
			o.SetName(fmt.Sprintf("x%d", len(c.objects))) // they are unique only in a file
			if o.SetAPIVersion(group + "/v1"); kinds[o.GetAPIVersion()+o.GetKind()] {
				c.objects = append(c.objects, o)
			}
		}
	}
	o, _ := c.options()
	found, err := audit.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	got := lines(found.Results)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
		t.Errorf("%d findings (-linter +audit):\n%s", len(got), diff)
	}
}

// lines returns one line for each finding.
func lines(results []report.Result) []string {
	var all []string
	for _, r := range results {
		for _, f := range r.Findings {
			all = append(all, strings.Join([]string{r.Object.Kind, string(f.Severity), f.ID, f.Path, f.Value}, " "))
		}
	}
	return all
}

// However many Services an object is about, as many are validated as admission does.
func TestManyServicesOfAnObject(t *testing.T) {
	var listeners []any
	for range 2 * template.MostServices {
		listeners = append(listeners, map[string]any{
			"type": "loadbalancer", "configuration": map[string]any{"bootstrap": map[string]any{
				"annotations": map[string]any{"service.beta.kubernetes.io/dlb-listnr": "v"},
			}},
		})
	}
	kafka := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": map[string]any{"namespace": "shop", "name": "a"},
		"spec": map[string]any{"kafka": map[string]any{"listeners": listeners}},
	}}
	o, _ := cluster{
		served:  []*metav1.APIResourceList{resource("kafka.strimzi.io/v1", "kafkas", "Kafka", true)},
		objects: []*unstructured.Unstructured{kafka},
	}.options()
	found, err := audit.Run(t.Context(), o)
	if err != nil || len(found.Results) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	all := found.Results[0].Findings
	if len(all) != template.MostServices+1 || all[template.MostServices].ID != "too-many-templates" {
		t.Errorf("%d findings, the last is %+v", len(all), all[len(all)-1])
	}
}
