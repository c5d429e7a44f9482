package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/builder"
)

// These are all the resources through which the guarded objects can be reached. A new one of a later Kubernetes release
// must be examined like those in docs/explanation/routes-to-admission.md.
func TestSubresourcesOfGuardedObjects(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", shared.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	api, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"v1": {
			"persistentvolumeclaims", "persistentvolumeclaims/status", "persistentvolumes", "persistentvolumes/status",
			"services", "services/proxy", "services/status",
		},
		"quaymaster.dev/v1alpha1": {
			"clusterloadbalancerpolicies", "clusterloadbalancerpolicies/status", "loadbalancerpolicies", "loadbalancerpolicies/status",
		},
	}
	for version, resources := range want {
		served, err := api.ServerResourcesForGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		guarded := sets.New(resources...)
		got := sets.New[string]()
		for _, r := range served.APIResources {
			if plain, _, _ := strings.Cut(r.Name, "/"); guarded.Has(plain) {
				got.Insert(r.Name)
			}
		}
		if diff := cmp.Diff(sets.List(guarded), sets.List(got)); diff != "" {
			t.Errorf("resources of %s (-want +got):\n%s", version, diff)
		}
	}
}

// A mistake is rejected whichever way it is written.
func TestEveryRouteIsValidated(t *testing.T) {
	key := loadbalancer.Prefix + "scheduler"
	merge := func(value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value) }
	pointer := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
	patch := func(value string) string { return fmt.Sprintf(`[{"op":"add","path":%q,"value":%q}]`, pointer, value) }
	apply := func(value string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"routes","namespace":%q,"annotations":{%q:%q}}}`,
			namespace, key, value)
	}
	owner := client.FieldOwner("routes-test")
	bodies := map[types.PatchType]func(string) string{
		types.JSONPatchType: patch, types.MergePatchType: merge, types.StrategicMergePatchType: merge, types.ApplyPatchType: apply,
	}
	svc := create(t, service("routes"))
	for kind, body := range bodies {
		force := []client.PatchOption{owner}
		if kind == types.ApplyPatchType {
			force = append(force, client.ForceOwnership)
		}
		for name, write := range map[string]func(string) error{
			"services": func(value string) error {
				return shared.Client.Patch(t.Context(), svc.DeepCopy(), client.RawPatch(kind, []byte(body(value))), force...)
			},
			"services/status": func(value string) error {
				options := &client.SubResourcePatchOptions{}
				for _, o := range force {
					options.PatchOptions.ApplyOptions([]client.PatchOption{o})
				}
				return shared.Client.Status().Patch(t.Context(), svc.DeepCopy(), client.RawPatch(kind, []byte(body(value))), options)
			},
		} {
			t.Run(name+" by "+string(kind), func(t *testing.T) {
				if err := write("fastest"); !apierrors.IsInvalid(err) {
					t.Errorf("got %v, want a rejection", err)
				}
				// The route itself works.
				if err := write("round-robin"); err != nil {
					t.Error(err)
				}
				if got := get(t, "routes").Annotations[key]; got != "round-robin" {
					t.Errorf("the annotation is %q", got)
				}
			})
		}
	}
}

// A write of the status does not change the spec, so no other Service becomes a load balancer without validation.
func TestStatusDoesNotChangeTheType(t *testing.T) {
	svc := service("still", builder.DLB("scheduler", "fastest"))
	svc.Spec.Type = corev1.ServiceTypeClusterIP
	create(t, svc)
	body := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"type":"LoadBalancer"},"metadata":{"labels":{"a":"b"}}}`))
	if err := shared.Client.Status().Patch(t.Context(), svc, body); err != nil {
		t.Fatal(err)
	}
	if got := get(t, "still").Spec.Type; got != corev1.ServiceTypeClusterIP {
		t.Errorf("it is of type %s", got)
	}
}

// What admission guards in volumes and claims is in their spec, which a write of the status leaves alone.
func TestStatusOfVolumesAndClaims(t *testing.T) {
	pv := builder.PersistentVolume(builder.Source(corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/data"},
	}))
	pv.UID, pv.Name = "", "routes"
	pvc := builder.PersistentVolumeClaim()
	pvc.UID, pvc.Name, pvc.Namespace = "", "routes", namespace
	size := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, object := range []client.Object{pv, pvc} {
		if err := shared.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		deleteWith(t, object)
	}
	pv.Labels = map[string]string{corev1.LabelTopologyZone: "elsewhere"}
	pv.Spec.NodeAffinity = nil
	pvc.Labels = map[string]string{"team": "edge"}
	pvc.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("900Ti")
	for _, object := range []client.Object{pv, pvc} {
		if err := shared.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// Labels belong to the user after creation, in whatever way they are written.
	if got := pv.Labels[corev1.LabelTopologyZone]; got != "elsewhere" {
		t.Errorf("the zone label is %q", got)
	}
	if got := pvc.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(size) != 0 {
		t.Errorf("the claim requests %s", got.String())
	}
}

// A write of a policy's status changes neither its spec nor its metadata, so a right to write the status is no right to
// write policies.
func TestStatusOfPolicies(t *testing.T) {
	cluster := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: "routes"}}
	local := &v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: "routes", Namespace: namespace}}
	cluster.Spec.Defaults = map[string]string{"example.com/scheme": "internal"}
	local.Spec.Defaults = cluster.Spec.Defaults
	body := fmt.Sprintf(`{"metadata":{"labels":{"a":"b"}},"spec":{"defaults":{%q:"many"}},"status":{"services":7}}`,
		loadbalancer.Prefix+"listener-maxqps")
	for _, p := range []client.Object{cluster, local} {
		if err := shared.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		deleteWith(t, p)
		if err := shared.Client.Status().Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
		if len(p.GetLabels()) > 0 {
			t.Errorf("%T has labels %v", p, p.GetLabels())
		}
	}
	if len(cluster.Spec.Defaults) != 1 || len(local.Spec.Defaults) != 1 {
		t.Errorf("the specs are %+v and %+v", cluster.Spec, local.Spec)
	}
	if cluster.Status.Services != 7 || local.Status.Services != 7 {
		t.Error("the status was not written")
	}
}

// kubectl replace --force deletes the Service and creates it again, so it is validated and defaulted like a new one.
func TestForcedReplacement(t *testing.T) {
	create(t, service("forced"))
	replaced := kubectl(t, service("forced"), "replace", "--force")
	if replaced.Code != 0 {
		t.Fatal(replaced)
	}
	if got := get(t, "forced").Annotations[loadbalancer.Prefix+"listener-maxqps"]; got != "10000" {
		t.Errorf("maxqps is %q, want the default", got)
	}
	bad := service("forced", builder.DLB("scheduler", "fastest"))
	if got := kubectl(t, bad, "replace", "--force"); got.Code != 1 || got.Stderr != refusal("forced", nil, bad) {
		t.Errorf("an invalid Service: %+v", got)
	}
}
