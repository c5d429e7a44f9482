package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
)

// step is a step in the life of an object and the calls that it costs, by the webhook's path.
type step struct {
	name string
	do   func() error
	want map[string]int
}

var none = map[string]int{}

// checkCalls takes objects through their lives and counts the webhook calls of each step, because calls cost
// users time.
func checkCalls(t *testing.T, kube client.Client, asked *counter) {
	ctx := t.Context()
	if err := kube.Create(ctx, withoutUID(builder.StorageClass())); err != nil {
		t.Fatal(err)
	}

	claim := withoutUID(builder.PersistentVolumeClaim())
	bound := *claim.Status.DeepCopy()
	grown := map[string]int{"/mutate-persistentvolumeclaim": 1, "/validate-persistentvolumeclaim": 1}
	request := func(size string) func() error {
		return func() error {
			builder.Request(size)(claim)
			return kube.Update(ctx, claim)
		}
	}

	ours := withoutUID(builder.PersistentVolume())
	foreign := withoutUID(builder.PersistentVolume(builder.Source(corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "vol-data-1"},
	})))
	local := withoutUID(builder.PersistentVolume(builder.Source(corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/data"},
	})))
	foreign.Name, local.Name = "foreign", "local"

	label := func(object client.Object) func() error {
		return func() error {
			object.SetLabels(map[string]string{"team": "edge"})
			return kube.Update(ctx, object)
		}
	}
	create := func(object client.Object) func() error { return func() error { return kube.Create(ctx, object) } }
	remove := func(object client.Object) func() error { return func() error { return kube.Delete(ctx, object) } }

	steps := append(serviceSteps(ctx, kube), []step{
		{"a claim is created", create(claim), map[string]int{"/mutate-persistentvolumeclaim": 1}},
		{"it is bound", func() error { claim.Status = bound; return kube.Status().Update(ctx, claim) }, none},
		{"it is labelled", label(claim), none},
		{"it requests the same in another unit", request("20480Mi"), none},
		{"it grows", request("30Gi"), grown},
		{"it grows by a byte", request("32212254721"), grown},
		{"it reduces its request", request("25Gi"), none},
		{"its capacity grows", func() error {
			claim.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("25Gi")
			return kube.Status().Update(ctx, claim)
		}, none},
		{"it is deleted", remove(claim), none},
		{"it grows during deletion", func() error {
			if err := kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return err
			}
			return request("40Gi")()
		}, none},
		{"its finalizer is removed", func() error { claim.Finalizers = nil; return kube.Update(ctx, claim) }, none},

		{"a volume of the cloud is created", create(ours), map[string]int{"/mutate-persistentvolume": 1}},
		{"it is labelled", label(ours), none},
		{"it is deleted", remove(ours), none},
		{"a volume of another driver is created", create(foreign), none},
		{"a volume without a driver is created", create(local), none},
	}...)
	for _, kind := range []string{"LoadBalancerPolicy", "ClusterLoadBalancerPolicy"} {
		object := policy(t, kind, `{rules: [{annotation: example.com/key, required: true}]}`)
		call := map[string]int{"/validate-" + strings.ToLower(kind): 1}
		steps = append(steps,
			step{"a " + kind + " is created", create(object), call},
			step{"it changes", func() error {
				object.Object["spec"] = map[string]any{"defaults": map[string]any{"example.com/key": "x"}}
				return kube.Update(ctx, object)
			}, call},
			step{"its status changes", func() error {
				object.Object["status"] = map[string]any{"services": int64(1)}
				return kube.Status().Update(ctx, object)
			}, none},
			step{"it is deleted with a finalizer", func() error {
				object.SetFinalizers([]string{"example.com/hold"})
				if err := kube.Update(ctx, object); err != nil {
					return err
				}
				return kube.Delete(ctx, object)
			}, call},
			step{"its finalizer is removed", func() error {
				if err := kube.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
					return err
				}
				object.SetFinalizers(nil)
				return kube.Update(ctx, object)
			}, none},
		)
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			settle(t, kube)
			asked.take()
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.want, asked.take()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		}) {
			t.FailNow()
		}
	}
}

// withoutUID clears the UID, so that the API server chooses it.
func withoutUID[T client.Object](object T) T {
	object.SetUID("")
	return object
}

// settle waits until the API server's cache has everything written so far. The API server starts an update with the
// object in its cache; if that is stale, it starts again, and calls the webhooks again.
func settle(t *testing.T, kube client.Client) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &v1alpha1.LoadBalancerPolicyList{}, &v1alpha1.ClusterLoadBalancerPolicyList{},
	} {
		// A list without a resource version waits for the latest state.
		if err := kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
}
