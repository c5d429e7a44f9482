package controllers

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/test/cloud"
	"quaymaster.dev/test/env"
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
	theirs.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
	w.must(w.client.Status().Update(w.t.Context(), theirs))
	w.must(w.controllers.Restart(w.t.Context()))
	env.Eventually(w.t, soon, "the end of our part", func(ctx context.Context) error {
		now := w.get(svc)
		left, err := w.balancers(ctx, svc)
		if err != nil {
			return err
		}
		_, claimed := now.Annotations[service.AnnotationClaim]
		_, recorded := now.Annotations[service.AnnotationRecord]
		condition := meta.FindStatusCondition(now.Status.Conditions, service.ConditionConfigured)
		if len(left) != 0 || claimed || recorded || condition != nil || len(now.Finalizers) != 0 {
			return fmt.Errorf("%d load balancers, service %+v", len(left), now)
		}
		return nil
	})
	if diff := cmp.Diff(theirs.Status.LoadBalancer, w.get(svc).Status.LoadBalancer); diff != "" {
		w.t.Errorf("the status of another controller (-want +got):\n%s", diff)
	}
	w.must(w.client.Delete(w.t.Context(), svc))
	w.gone(svc, soon)
}

// TestStockControllers: the stock service controller does the same, and both can follow each other without a write to
// the cloud.
func TestStockControllers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("--stock-controllers")
	nodesAreInitialised(w)
	serviceGetsLoadBalancer(w)
	loadBalancerFollows(w)
	w.settledAs("")
	before := w.revisions()
	for _, args := range [][]string{{}, {"--stock-controllers"}} {
		if err := w.controllers.Stop(soon); err != nil {
			t.Fatal(err)
		}
		w.start(args...)
		// A change after the start is reconciled, so the start is over.
		probe := w.published(w.service("probe"))
		w.must(w.client.Delete(t.Context(), probe))
		w.gone(probe, soon)
		w.settledAs("mycloud.io/dlb")
		if diff := cmp.Diff(before, w.revisions()); diff != "" {
			t.Errorf("%q changed revisions (-before +after):\n%s", args, diff)
		}
	}
	web := w.web()
	w.must(w.client.Delete(t.Context(), web))
	w.gone(web, soon)
	if left, err := w.balancers(t.Context(), web); err != nil || len(left) != 0 {
		t.Errorf("%d load balancers are left, %v", len(left), err)
	}
}

// settledAs waits until the Service web is configured and has the claim.
func (w *world) settledAs(claim string) {
	w.t.Helper()
	w.condition(w.web(), metav1.ConditionTrue, "Configured", "")
	env.Eventually(w.t, soon, "claim of web", func(context.Context) error {
		if got := w.web().Annotations[service.AnnotationClaim]; got != claim {
			return fmt.Errorf("it is %q, want %q", got, claim)
		}
		return nil
	})
}
