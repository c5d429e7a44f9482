package dlb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// meddle changes the load balancer in the cloud.
func (f *fixture) meddle(change func(*cloudv1.LoadBalancerSpec)) {
	f.t.Helper()
	lb := f.only()
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	change(&spec)
	_, _, err := f.cloud.Client.UpdateLoadBalancer(f.t.Context(), lb.ID, spec, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		f.t.Fatal(err)
	}
	f.sync()
	f.cloud.Calls()
}

// drifting returns a fixture whose load balancer was changed in the cloud after it had been configured.
func drifting(t *testing.T, drift dlb.Drift) *fixture {
	t.Helper()
	f := start(t, 0, func(o *dlb.Options) { o.Drift = drift })
	f.mustEnsure(builder.Service())
	f.meddle(func(spec *cloudv1.LoadBalancerSpec) { spec.Listeners[0].MaxQPS = 1 })
	return f
}

func TestDriftIsRepaired(t *testing.T) {
	f := drifting(t, dlb.DriftRepair)
	f.mustEnsure(builder.Service())
	f.expectCalls("drift", "PUT load-balancers/{id}")
	f.expectCondition(builder.Service(), metav1.ConditionTrue, "Configured", "")
}

// Drift that is only reported is in the condition, an Event and the metric, once, until the Service changes or the drift
// is gone.
func TestDriftIsReported(t *testing.T) {
	const message = "to overwrite it, change the service: listeners[tcp/80].max_qps: 1 -> 10000"
	f := drifting(t, dlb.DriftReport)
	published := f.mustEnsure(builder.Service())
	if len(published.Ingress) != 1 {
		t.Errorf("published %+v", published)
	}
	f.expectCalls("drift")
	f.expectCondition(builder.Service(), metav1.ConditionFalse, "Drifted", message)
	f.expectEvent("Warning LoadBalancerDrifted load balancer")
	f.expectMetrics("drift", map[string][2]int{"Drifted": {1}})

	f.restart()
	f.mustEnsure(builder.Service(builder.Annotation("example.com/team", "shop")))
	f.expectCalls("a foreign annotation")
	f.expectCondition(builder.Service(), metav1.ConditionFalse, "Drifted", message)
	if len(f.events.Events) > 0 {
		t.Errorf("another event: %s", <-f.events.Events)
	}

	f.meddle(func(spec *cloudv1.LoadBalancerSpec) { spec.Listeners[0].MaxQPS = 10000 })
	f.mustEnsure(builder.Service())
	f.expectCalls("the drift is gone")
	f.expectCondition(builder.Service(), metav1.ConditionTrue, "Configured", "")

	f.meddle(func(spec *cloudv1.LoadBalancerSpec) { spec.Listeners[0].MaxQPS = 1 })
	f.mustEnsure(builder.Service())
	f.cloud.Calls()
	changed := builder.Service(builder.DLB("listener-idle-timeout", "90s"))
	f.mustEnsure(changed)
	f.expectCalls("the service changes", "PUT load-balancers/{id}")
	f.expectCondition(changed, metav1.ConditionTrue, "Configured", "")
	if l := f.only().Listeners[0]; l.MaxQPS != 10000 || l.IdleTimeoutMS != 90_000 {
		t.Errorf("listener %+v", l)
	}
}

func TestDriftIsIgnored(t *testing.T) {
	f := drifting(t, dlb.DriftOff)
	f.mustEnsure(builder.Service())
	f.expectCalls("drift")
	f.expectCondition(builder.Service(), metav1.ConditionTrue, "Configured", "")
	f.mustEnsure(builder.Service(builder.DLB("listener-idle-timeout", "90s")))
	f.expectCalls("the service changes", "PUT load-balancers/{id}")
}

// TestDriftWhileTheCloudWorks: a change in the cloud that takes time there is not overwritten when it is done.
func TestDriftWhileTheCloudWorks(t *testing.T) {
	for drift, want := range map[dlb.Drift]string{dlb.DriftReport: "Drifted", dlb.DriftOff: "Configured"} {
		t.Run(string(drift), func(t *testing.T) {
			f := drifting(t, drift)
			done := f.only()
			working := done
			working.ProvisioningState = cloudv1.ProvisioningPendingUpdate
			f.cloud.Calls()
			for _, lb := range []*cloudv1.LoadBalancer{&working, &done} {
				reason := "Pending"
				if lb == &done {
					reason = want
				}
				// What the mirror still receives of the cloud may take the place of what is put there.
				env.Eventually(t, 10*time.Second, string(lb.ProvisioningState), func(context.Context) error {
					f.options.Mirror.LoadBalancers.Drop(t.Context(), done.ID)
					f.options.Mirror.LoadBalancers.Put(t.Context(), lb)
					_, _ = f.ensure(builder.Service()) // that the cloud is still working is an error
					f.expectCalls(string(lb.ProvisioningState))
					if c := f.condition(builder.Service()); c.Reason != reason {
						return fmt.Errorf("condition %+v, want %s", c, reason)
					}
					return nil
				})
			}
		})
	}
}

// TestDriftOfAFailedLoadBalancer: the cloud is asked to try again, with the load balancer as it is there, and what others
// have changed is not overwritten while it does that, nor afterwards.
func TestDriftOfAFailedLoadBalancer(t *testing.T) {
	for drift, want := range map[dlb.Drift]string{dlb.DriftReport: "Drifted", dlb.DriftOff: "Configured"} {
		t.Run(string(drift), func(t *testing.T) {
			f := drifting(t, drift)
			svc := builder.Service()
			f.mustEnsure(svc)
			lb := f.only()
			var written []int
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				var spec cloudv1.LoadBalancerSpec
				if r.Method != http.MethodPut {
					return false
				}
				lb.ProvisioningState = cloudv1.ProvisioningPendingUpdate
				w.Header().Set("Content-Type", "application/json")
				if err := errors.Join(json.NewDecoder(r.Body).Decode(&spec), json.NewEncoder(w).Encode(lb)); err != nil {
					t.Error(err)
				}
				written = append(written, spec.Listeners[0].MaxQPS)
				return true
			})
			reason := ""
			for _, state := range []cloudv1.ProvisioningState{
				cloudv1.ProvisioningError, cloudv1.ProvisioningPendingUpdate, cloudv1.ProvisioningError, cloudv1.ProvisioningActive,
			} {
				now := lb
				now.ProvisioningState, now.Revision = state, lb.Revision+"0"
				f.options.Mirror.LoadBalancers.Drop(t.Context(), lb.ID)
				f.options.Mirror.LoadBalancers.Put(t.Context(), &now)
				for range 2 {
					// Only a load balancer that the cloud fails to provide is an error.
					_, err := f.ensureStored(f.put(svc))
					f.see(svc)
					if state == cloudv1.ProvisioningActive && err != nil {
						t.Error(err)
					}
				}
				reason = f.condition(svc).Reason
			}
			if !slices.Equal(written, []int{1}) || reason != want {
				t.Errorf("written were the limits %v, want the one in the cloud; the reason is %s, want %s", written, reason, want)
			}
		})
	}
}

// TestRevertedChangeIsNoDrift: what a Service has asked for in between is overwritten, although the Service is again as it
// was when its load balancer was configured, even if the answer of the cloud was lost.
func TestRevertedChangeIsNoDrift(t *testing.T) {
	f := start(t, 0, func(o *dlb.Options) { o.Drift = dlb.DriftReport })
	f.mustEnsure(builder.Service())
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		f.cloud.Serve(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	if _, err := f.ensure(builder.Service(builder.DLB("listener-maxqps", "77"))); err == nil {
		t.Fatal("the answer was not lost")
	}
	if qps := f.only().Listeners[0].MaxQPS; qps != 77 {
		t.Fatalf("the limit is %d", qps)
	}
	f.cloud.Intercept(nil)
	f.restart()
	f.mustEnsure(builder.Service())
	f.expectCondition(builder.Service(), metav1.ConditionTrue, "Configured", "")
	if qps := f.only().Listeners[0].MaxQPS; qps != 10000 {
		t.Errorf("the limit is %d, that of the reverted change", qps)
	}
}

// TestDriftOfALostLoadBalancer: it is replaced, whatever drift is.
func TestDriftOfALostLoadBalancer(t *testing.T) {
	for _, drift := range []dlb.Drift{dlb.DriftReport, dlb.DriftOff} {
		f := start(t, 0, func(o *dlb.Options) { o.Drift = drift })
		svc := builder.Service()
		lost := f.publish(svc)
		f.lose(lost)
		for range 2 {
			if _, err := f.ensure(svc); err == nil {
				t.Fatal("created at once")
			}
			f.pass(30)
		}
		if f.mustEnsure(svc); f.only().ID == lost.ID {
			t.Errorf("%s: the load balancer came back", drift)
		}
	}
}
