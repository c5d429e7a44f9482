package dlb_test

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/test/builder"
)

// Waiting for the first sync of a node group is no failure.
func TestGroupNotSyncedYet(t *testing.T) {
	f := start(t, 0, func(o *dlb.Options) { o.NodeGroups = groups{} })
	if _, err := f.ensure(builder.Service()); !errors.Is(err, service.ErrNotReady) {
		t.Errorf("got %v, want %v", err, service.ErrNotReady)
	}
}

// A Service that never got a load balancer and no longer wants one is looked up once, and its condition is removed.
func TestConditionGoesWithTheType(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("listener-maxqps", "many"))
	if _, err := f.ensure(svc); err == nil {
		t.Fatal("no error")
	}
	if _, _, err := f.GetLoadBalancer(t.Context(), "dev", f.put(svc)); err != nil {
		t.Fatal(err)
	}
	f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration", "")
	svc.Spec.Type = corev1.ServiceTypeClusterIP
	if _, exists, err := f.GetLoadBalancer(t.Context(), "dev", f.put(svc)); exists || err != nil {
		t.Errorf("GetLoadBalancer = %t, %v; want false", exists, err)
	}
	if c := f.condition(svc); c != nil {
		t.Errorf("condition %+v stays", c)
	}
}

// The API server's errors are ignored if the Service is gone or was replaced by another one of the same name, and
// returned otherwise.
func TestConditionRefusedByAPIServer(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	conflict := apierrors.NewConflict(services, "web", nil)
	invalid := &apierrors.StatusError{
		ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity},
	}
	for name, tc := range map[string]struct {
		change func(*fixture, *corev1.Service)
		answer error
		ok     bool
	}{
		"gone": {
			change: func(f *fixture, svc *corev1.Service) {
				if err := f.client.CoreV1().Services(svc.Namespace).Delete(f.t.Context(), svc.Name, metav1.DeleteOptions{}); err != nil {
					f.t.Fatal(err)
				}
			},
			answer: conflict, ok: true,
		},
		"another of the same name": {
			change: func(f *fixture, svc *corev1.Service) {
				namesake := svc.DeepCopy()
				namesake.UID = "another"
				f.put(namesake)
			},
			answer: invalid, ok: true,
		},
		"invalid":  {change: func(*fixture, *corev1.Service) {}, answer: invalid},
		"conflict": {change: func(*fixture, *corev1.Service) {}, answer: conflict},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := f.put(builder.Service())
			tc.change(f, svc)
			f.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, tc.answer
			})
			if _, err := f.EnsureLoadBalancer(t.Context(), "dev", svc, nil); (err == nil) != tc.ok {
				t.Errorf("error %v, want success: %t", err, tc.ok)
			}
		})
	}
}
