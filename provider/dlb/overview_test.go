package dlb_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

// begin is the time at which these tests begin, in seconds.
const begin = 1_000_000

// expectMetrics compares, for each reason, the number of Services and the time of the earliest one in seconds after
// begin.
func (w *fixture) expectMetrics(when string, want map[string][2]int) {
	w.t.Helper()
	reasons := []string{
		"AddressInUse", "CloudChanged", "ClusterIDChanged", "ClusterUIDHeldByAnother", "Configured", "DeletionProtected", "Drifted", "InvalidConfiguration", "LoadBalancerMissing", "LoadBalancerNotOwned", "LoadBalancerUnreadable", "Pending",
		"RefusedByCloud", "SyncFailing", "Unreported",
	}
	var services, unsettled strings.Builder
	for _, reason := range reasons {
		w := want[reason]
		fmt.Fprintf(&services, "quaymaster_load_balancer_services{reason=%q} %d\n", reason, w[0])
		if reason == "Configured" {
			continue
		}
		since := 0
		if w[0] > 0 {
			since = begin + w[1]
		}
		fmt.Fprintf(&unsettled, "quaymaster_load_balancer_unsettled_timestamp_seconds{reason=%q} %d\n", reason, since)
	}
	text := "# HELP quaymaster_load_balancer_services Services of type LoadBalancer handled by this controller, by the state of their load balancers.\n" +
		"# TYPE quaymaster_load_balancer_services gauge\n" + services.String() +
		"# HELP quaymaster_load_balancer_unsettled_timestamp_seconds Time since which a load balancer is not what its Service asks for: " +
		"the earliest of those with the reason, 0 if there is none.\n" +
		"# TYPE quaymaster_load_balancer_unsettled_timestamp_seconds gauge\n" + unsettled.String()
	w.cloud.Calls()
	if err := testutil.CollectAndCompare(w.Metrics(), strings.NewReader(text),
		"quaymaster_load_balancer_services", "quaymaster_load_balancer_unsettled_timestamp_seconds"); err != nil {
		w.t.Errorf("%s: %v", when, err)
	}
	if calls := w.cloud.Calls(); len(calls) > 0 {
		w.t.Errorf("%s: metrics cost %v", when, calls)
	}
}

// named returns a Service with another name, created at begin.
func named(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Name, svc.UID, svc.CreationTimestamp = name, types.UID(name), metav1.Unix(begin, 0)
	return svc
}

func TestMetricsOfServices(t *testing.T) {
	w := start(t, 0)
	good, bad := named("good"), named("bad", builder.DLB("listener-maxqps", "many"))
	plain := named("plain")
	plain.Spec.Type = corev1.ServiceTypeClusterIP
	for _, svc := range []*corev1.Service{good, bad, plain} {
		w.put(svc)
		w.see(svc)
	}
	w.expectMetrics("at first", map[string][2]int{"Unreported": {2}})

	w.pass(10)
	for _, svc := range []*corev1.Service{good, bad} {
		_, _ = w.ensure(svc)
		w.see(svc)
	}
	w.pass(5)
	worse := named("worse", builder.DLB("listener-maxqps", "-1"))
	_, _ = w.ensure(worse)
	w.see(worse)
	w.expectMetrics("tried", map[string][2]int{"Configured": {1}, "InvalidConfiguration": {2, 10}})
	if err := w.seen.Delete(worse); err != nil {
		t.Fatal(err)
	}
	w.expectMetrics("one is gone", map[string][2]int{"Configured": {1}, "InvalidConfiguration": {1, 10}})

	w.cloud.Intercept(func(answer http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(answer, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
	for range 2 {
		w.pass(10)
		_, _ = w.ensure(good)
		_, _ = w.ensure(bad)
	}
	w.expectMetrics("without a cloud", map[string][2]int{"Configured": {1}, "InvalidConfiguration": {1, 10}})
	builder.DLB("listener-maxqps", "5")(good)
	_, _ = w.ensure(good)
	w.expectMetrics("with a change, and without a cloud", map[string][2]int{"SyncFailing": {1, 35}, "InvalidConfiguration": {1, 10}})
	w.cloud.Intercept(nil)
	w.mustEnsure(good)
	w.expectMetrics("with a cloud again", map[string][2]int{"Configured": {1}, "InvalidConfiguration": {1, 10}})

	bad.Spec.Type = corev1.ServiceTypeClusterIP
	if err := w.removeStored(w.put(bad)); err != nil {
		t.Fatal(err)
	}
	w.see(bad)
	w.expectMetrics("after the bad one wants no load balancer any more", map[string][2]int{"Configured": {1}})
}

// Services that wait for their deletion count as unsettled, and deleted ones do not count.
func TestMetricsOfDeletedServices(t *testing.T) {
	w := start(t, 0)
	first, second := named("first", builder.DLB("deletion-protection", "true")), named("second")
	for _, svc := range []*corev1.Service{first, second} {
		w.mustEnsure(svc)
		w.see(svc)
	}
	w.pass(10)
	w.cloud.Intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			cloud.Problem(answer, http.StatusInternalServerError, cloudv1.CodeInternal)
		}
		return r.Method == http.MethodDelete
	})
	for _, svc := range []*corev1.Service{first, second} {
		deleted := svc.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
		if err := w.removeStored(deleted); err == nil {
			t.Errorf("%s is deleted", svc.Name)
		}
		w.see(svc)
	}
	w.expectMetrics("deletion fails", map[string][2]int{"DeletionProtected": {1, 10}, "SyncFailing": {1, 10}})

	w.cloud.Intercept(func(answer http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(answer, http.StatusInternalServerError, cloudv1.CodeInternal)
		return true
	})
	third := w.put(named("third"))
	w.see(third)
	w.pass(10)
	if err := w.removeStored(third); err == nil {
		t.Error("there is an answer")
	}
	w.expectMetrics(
		"the cloud does not even say what there is", map[string][2]int{"DeletionProtected": {1, 10}, "SyncFailing": {2, 10}},
	)

	for _, object := range slices.Clone(w.seen.List()) {
		if err := w.seen.Delete(object); err != nil {
			t.Fatal(err)
		}
	}
	w.expectMetrics("all are gone", nil)
	w.see(second)
	w.expectMetrics("one comes back as it was", map[string][2]int{"SyncFailing": {1, 10}})
}

// Load balancers that do not serve count from the time at which that began.
func TestMetricsOfTheDataPlane(t *testing.T) {
	w := start(t, 0)
	w.mustEnsure(named("first"))
	w.pass(10)
	w.mustEnsure(named("second"))
	w.pass(10)
	w.mustEnsure(named("first"))
	text := "# HELP quaymaster_load_balancer_degraded_services Services whose load balancers do not serve as they should, by the reason.\n" +
		"# TYPE quaymaster_load_balancer_degraded_services gauge\n" +
		"quaymaster_load_balancer_degraded_services{reason=\"Degraded\"} 0\n" +
		"quaymaster_load_balancer_degraded_services{reason=\"NoBackends\"} 2\n" +
		"quaymaster_load_balancer_degraded_services{reason=\"Offline\"} 0\n" +
		"# HELP quaymaster_load_balancer_degraded_timestamp_seconds Time since which a load balancer does not serve as it should: " +
		"the earliest of those with the reason, 0 if there is none.\n" +
		"# TYPE quaymaster_load_balancer_degraded_timestamp_seconds gauge\n" +
		"quaymaster_load_balancer_degraded_timestamp_seconds{reason=\"Degraded\"} 0\n" +
		fmt.Sprintf("quaymaster_load_balancer_degraded_timestamp_seconds{reason=\"NoBackends\"} %d\n", begin) +
		"quaymaster_load_balancer_degraded_timestamp_seconds{reason=\"Offline\"} 0\n"
	if err := testutil.CollectAndCompare(w.Metrics(), strings.NewReader(text),
		"quaymaster_load_balancer_degraded_services", "quaymaster_load_balancer_degraded_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}
