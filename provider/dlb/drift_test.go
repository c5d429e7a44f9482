package dlb_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/test/builder"
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
	for drift, want := range map[dlb.Drift]struct {
		status metav1.ConditionStatus
		reason string
	}{dlb.DriftReport: {metav1.ConditionFalse, "Drifted"}, dlb.DriftOff: {metav1.ConditionTrue, "Configured"}} {
		t.Run(string(drift), func(t *testing.T) {
			f := drifting(t, drift)
			done := f.only()
			working := done
			working.ProvisioningState = cloudv1.ProvisioningPendingUpdate
			f.cloud.Calls()
			for _, lb := range []*cloudv1.LoadBalancer{&working, &done} {
				f.options.Mirror.LoadBalancers.Drop(done.ID)
				f.options.Mirror.LoadBalancers.Put(lb)
				f.mustEnsure(builder.Service())
				f.expectCalls(string(lb.ProvisioningState))
				f.expectCondition(builder.Service(), want.status, want.reason, "")
			}
		})
	}
}

// TestDriftOfAFailedLoadBalancer: the cloud is asked to try again, with the load balancer as it is there.
func TestDriftOfAFailedLoadBalancer(t *testing.T) {
	for _, drift := range []dlb.Drift{dlb.DriftReport, dlb.DriftOff} {
		t.Run(string(drift), func(t *testing.T) {
			f := drifting(t, drift)
			f.mustEnsure(builder.Service())
			lb := f.only()
			lb.ProvisioningState, lb.Revision = cloudv1.ProvisioningError, lb.Revision+"0"
			f.options.Mirror.LoadBalancers.Put(&lb)
			var written []int
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				var spec cloudv1.LoadBalancerSpec
				if r.Method != http.MethodPut {
					return false
				}
				if err := errors.Join(json.NewDecoder(r.Body).Decode(&spec), json.NewEncoder(w).Encode(lb)); err != nil {
					t.Error(err)
				}
				written = append(written, spec.Listeners[0].MaxQPS)
				return true
			})
			if _, err := f.EnsureLoadBalancer(t.Context(), "dev", f.put(builder.Service()), nil); err == nil {
				t.Error("no error")
			}
			if !slices.Equal(written, []int{1}) {
				t.Errorf("written were the limits %v, want the one in the cloud", written)
			}
		})
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

func TestDifferences(t *testing.T) {
	f := start(t, 0)
	f.mustEnsure(builder.Service())
	lb := f.only()
	want := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: map[string]string{"a": "b"}, LoadBalancerFields: lb.LoadBalancerFields}
	if got := dlb.Differences(cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}, &lb); len(got) > 0 {
		t.Errorf("differences to itself: %q", got)
	}
	want.Zones = []string{"eu-1b"}
	want.Pools = append(slices.Clone(lb.Pools), cloudv1.Pool{Key: "tcp/81", Family: "ipv4"})
	got := strings.Join(dlb.Differences(want, &lb), "\n")
	for _, line := range []string{
		`pools[tcp/81,ipv4].key: unset -> "tcp/81"`, `tags[a]: unset -> "b"`, `tags[quaymaster.dev/cluster-uid]: "` + clusterUID + `" -> unset`,
		`-> ["eu-1b"]`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}
