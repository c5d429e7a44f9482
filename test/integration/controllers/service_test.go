package controllers

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// outageIsReported: a changed Service does not stay configured while the cloud rejects the token or fails, and recovers.
func outageIsReported(w *world) {
	svc := w.web()
	// Each changes what the one before it has set.
	for _, outage := range []struct {
		qps    string
		status int
		code   string
	}{
		{"6001", http.StatusInternalServerError, cloudv1.CodeInternal},
		{"6000", http.StatusUnauthorized, cloudv1.CodeUnauthenticated},
	} {
		w.cloud.Intercept(func(answer http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			cloud.Problem(answer, outage.status, outage.code)
			return true
		})
		w.patch(svc, map[string]string{annotation + "listener-maxqps": outage.qps})
		w.condition(svc, metav1.ConditionUnknown, "SyncFailing", "")
		w.cloud.Intercept(nil)
		w.condition(svc, metav1.ConditionTrue, "Configured", "")
	}
}

// changesHands: a Service that gets another class while the controllers are down loses its load balancer, and nothing
// else.
func changesHands(w *world) {
	svc := w.published(w.service("handed"))
	w.controllers.Kill()
	for _, change := range []func(*corev1.ServiceSpec){
		func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeClusterIP },
		func(spec *corev1.ServiceSpec) {
			spec.Type, spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("example.com/lb")
		},
	} {
		now := w.get(svc)
		change(&now.Spec)
		w.must(w.client.Update(w.t.Context(), now))
	}
	theirs := w.get(svc)
	if !servicehelpers.HasLBFinalizer(theirs) {
		w.t.Errorf("the other controller would have to add a finalizer to %q", theirs.Finalizers)
	}
	theirs.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
	w.must(w.client.Status().Update(w.t.Context(), theirs))
	theirs.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	w.must(w.controllers.Restart(w.t.Context()))
	env.Eventually(w.t, soon, "the end of our part", func(ctx context.Context) error {
		now := w.get(svc)
		left, err := w.balancers(ctx, svc)
		if err != nil {
			return err
		}
		_, recorded := now.Annotations[service.AnnotationRecord]
		condition := meta.FindStatusCondition(now.Status.Conditions, condition.Configured)
		if len(left) != 0 || recorded || condition != nil || !slices.Equal(now.Finalizers, theirs.Finalizers) {
			return fmt.Errorf("%d load balancers, service %+v", len(left), now)
		}
		return nil
	})
	if diff := cmp.Diff(theirs.Status.LoadBalancer, w.get(svc).Status.LoadBalancer); diff != "" {
		w.t.Errorf("the status of another controller (-want +got):\n%s", diff)
	}
	now := w.get(svc)
	now.Finalizers = nil
	w.must(w.client.Update(w.t.Context(), now))
	w.must(w.client.Delete(w.t.Context(), svc))
	w.gone(svc, soon)
}
