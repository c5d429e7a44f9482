package dlb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
)

// vanish deletes a Service without its finalizer being honored.
func (f *fixture) vanish(svc *corev1.Service) {
	f.t.Helper()
	if err := f.client.CoreV1().Services(svc.Namespace).Delete(f.t.Context(), svc.Name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
	if err := f.seen.Delete(svc); err != nil {
		f.t.Fatal(err)
	}
}

func TestOrphans(t *testing.T) {
	on := true
	for name, tc := range map[string]struct {
		// change makes the load balancer or its Service special.
		change func(*fixture, *corev1.Service, cloudv1.LoadBalancer)
		// later happens shortly before the second look.
		later  func(*fixture, *corev1.Service)
		stays  bool
		reason string
	}{
		"the service does not exist": {change: func(f *fixture, svc *corev1.Service, _ cloudv1.LoadBalancer) { f.vanish(svc) }},
		"the service exists":         {change: func(*fixture, *corev1.Service, cloudv1.LoadBalancer) {}, stays: true},
		"only the cache lacks the service": {
			change: func(f *fixture, svc *corev1.Service, _ cloudv1.LoadBalancer) {
				if err := f.seen.Delete(svc); err != nil {
					f.t.Fatal(err)
				}
			},
			stays: true, reason: "waiting",
		},
		"its type changed while the controllers were down": {
			change: func(f *fixture, svc *corev1.Service, _ cloudv1.LoadBalancer) {
				f.forget(svc)
				f.edit(svc, func(s *corev1.Service) {
					s.Spec.Type, s.Status.LoadBalancer = corev1.ServiceTypeClusterIP, corev1.LoadBalancerStatus{}
				})
			},
		},
		"protected": {
			change: func(f *fixture, svc *corev1.Service, lb cloudv1.LoadBalancer) {
				f.vanish(svc)
				_, _, err := f.cloud.Client.PatchLoadBalancer(f.t.Context(), lb.ID,
					cloudv1.LoadBalancerPatch{DeletionProtection: &on}, cloudapi.WriteOptions{IfMatch: lb.Revision})
				if err != nil {
					f.t.Fatal(err)
				}
			},
			stays: true, reason: "protected",
		},
		"adopted": {
			change: func(f *fixture, svc *corev1.Service, lb cloudv1.LoadBalancer) {
				f.vanish(svc)
				value := offer
				f.tag(lb, ownership.Adopt, &value)
			},
			stays: true, reason: "adopted",
		},
		"without the service's tag": {
			change: func(f *fixture, svc *corev1.Service, lb cloudv1.LoadBalancer) {
				f.vanish(svc)
				f.tag(lb, ownership.ServiceUID, nil)
			},
			stays: true, reason: "untagged",
		},
		"the service comes back": {
			change: func(f *fixture, svc *corev1.Service, _ cloudv1.LoadBalancer) { f.vanish(svc) },
			later:  func(f *fixture, svc *corev1.Service) { f.put(svc) },
			stays:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			lb := f.publish(svc)
			clock := clocktesting.NewFakeClock(time.Now())
			orphans := dlb.NewOrphans(f.Balancer, f.client.CoreV1(), clock)
			tc.change(f, svc, lb)
			sweep := func() {
				t.Helper()
				f.sync()
				if err := orphans.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
			sweep()
			clock.Step(29 * time.Minute)
			f.cloud.Calls()
			sweep()
			if all := f.all(); len(all) != 1 {
				t.Fatal("deleted too early")
			}
			if tc.later != nil {
				tc.later(f, svc)
			}
			clock.Step(time.Minute)
			sweep()
			if stays := len(f.all()) == 1; stays != tc.stays {
				t.Errorf("stays: %t, want %t", stays, tc.stays)
			}
			want := "# HELP quaymaster_load_balancer_orphans Load balancers with the tag of this cluster whose Services do not " +
				"exist, by the reason why they are kept.\n# TYPE quaymaster_load_balancer_orphans gauge\n"
			for _, reason := range []string{"adopted", "failing", "protected", "too-many", "untagged", "waiting"} {
				count := 0
				if reason == tc.reason {
					count = 1
				}
				want += fmt.Sprintf("quaymaster_load_balancer_orphans{reason=%q} %d\n", reason, count)
			}
			sweep()
			if err := testutil.CollectAndCompare(orphans, strings.NewReader(want), "quaymaster_load_balancer_orphans"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Many orphans at once are no leak, but a mistake, such as a cluster that was restored from an old backup.
func TestManyOrphansStay(t *testing.T) {
	f := start(t, 0)
	for i := range 6 {
		svc := named(string(rune('a' + i)))
		f.publish(svc)
		if i < 2 {
			f.vanish(svc)
		}
	}
	clock := clocktesting.NewFakeClock(time.Now())
	orphans := dlb.NewOrphans(f.Balancer, f.client.CoreV1(), clock)
	for range 3 {
		if err := orphans.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Step(31 * time.Minute)
	}
	if all := f.all(); len(all) != 6 {
		t.Errorf("%d load balancers are left", len(all))
	}
}
