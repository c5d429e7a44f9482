package kubeapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"quaymaster.dev/test/harness/kubeapi"
)

// TestServer: what controllers depend on behaves as on a real API server, on virtual time.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubeapi.Start(t)
		client := server.Client(t)
		services := client.CoreV1().Services("shop")
		ctx := t.Context()
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Core().V1().Services()
		informer.Informer()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		t.Cleanup(factory.Shutdown)

		created, err := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"example.com/hold"}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if seen, err := informer.Lister().Services("shop").Get("web"); err != nil || seen.UID != created.UID {
			t.Fatalf("the informer has %v, %v", seen, err)
		}
		stale := created.DeepCopy()
		created.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		created.Status.Conditions = []metav1.Condition{{Type: "Ignored"}}
		updated, err := services.Update(ctx, created, metav1.UpdateOptions{})
		if err != nil || updated.Generation != 2 || len(updated.Status.Conditions) != 0 {
			t.Fatalf("update: %v, %v", updated, err)
		}
		if _, err := services.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a stale update: %v", err)
		}
		_, err = services.Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"uid":"x","labels":{"a":"b"}}}`), metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("a patch of another UID: %v", err)
		}
		condition := applymetav1.Condition().WithType("Ready").WithStatus(metav1.ConditionTrue).WithReason("Test").
			WithMessage("").WithLastTransitionTime(metav1.Now())
		applied, err := services.ApplyStatus(ctx, applycorev1.Service("web", "shop").WithStatus(
			applycorev1.ServiceStatus().WithConditions(condition)), metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil || len(applied.Status.Conditions) != 1 || len(applied.Spec.Ports) != 1 {
			t.Fatalf("apply: %v, %v", applied, err)
		}
		wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("x"))}}
		if err := services.Delete(ctx, "web", wrong); !apierrors.IsConflict(err) {
			t.Errorf("a deletion of another UID: %v", err)
		}
		if err := services.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if held, err := services.Get(ctx, "web", metav1.GetOptions{}); err != nil || held.DeletionTimestamp == nil {
			t.Fatalf("with a finalizer: %v, %v", held, err)
		}
		_, err = services.Patch(ctx, "web", types.JSONPatchType,
			[]byte(`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/hold"},{"op":"remove","path":"/metadata/finalizers/0"}]`),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := informer.Lister().Services("shop").Get("web"); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion, the informer says %v", err)
		}
	})
}

// TestRestore: objects go back to a backup, and clients that watch them learn of it.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubeapi.Start(t)
		client := server.Client(t)
		services := client.CoreV1().Services("shop")
		factory := informers.NewSharedInformerFactory(client, 0)
		lister := factory.Core().V1().Services().Lister().Services("shop")
		factory.Core().V1().Services().Informer()
		factory.Start(t.Context().Done())
		factory.WaitForCacheSync(t.Context().Done())
		t.Cleanup(factory.Shutdown)
		create := func(name string) {
			t.Helper()
			if _, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("old")
		backup := server.Backup()
		create("new")
		if err := services.Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		server.Restore(backup)
		time.Sleep(time.Minute)
		if _, err := lister.Get("new"); !apierrors.IsNotFound(err) {
			t.Errorf("what is newer than the backup: %v", err)
		}
		before, err := lister.Get("old")
		if err != nil {
			t.Fatal(err)
		}
		changed := before.DeepCopy()
		changed.Labels = map[string]string{"a": "b"}
		if _, err := services.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if after, err := lister.Get("old"); err != nil || after.Labels["a"] != "b" {
			t.Errorf("after a change, the informer has %v, %v", after, err)
		}
	})
}
