package cloud

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/installation"
)

// state is a condition of a Service since some time ago.
type state struct {
	kind   string
	status metav1.ConditionStatus
	reason string
	ago    time.Duration
}

func balancer(name string, states ...state) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(installation.Noon.Add(-time.Hour)),
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, s := range states {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{
			Type: s.kind, Status: s.status, Reason: s.reason, Message: "because", LastTransitionTime: metav1.NewTime(installation.Noon.Add(-s.ago)),
		})
	}
	return svc
}

var right = state{condition.Configured, metav1.ConditionTrue, "Configured", time.Hour}

func TestFaults(t *testing.T) {
	is := func(status metav1.ConditionStatus, reason string, ago time.Duration) *corev1.Service {
		return balancer("web", state{condition.Configured, status, reason, ago})
	}
	young := balancer("web")
	young.CreationTimestamp = metav1.NewTime(installation.Noon.Add(-time.Second))
	failed := &corev1.Event{Message: "Error syncing load balancer: no answer"}
	for name, tc := range map[string]struct {
		svc    *corev1.Service
		failed *corev1.Event
		want   fault
	}{
		"right":       {svc: balancer("web", right)},
		"new":         {svc: young},
		"unprocessed": {svc: balancer("web"), want: fault{doctor.Fail, "has not been processed by the controllers for 1h0m0s"}},
		"failing from the start": {
			svc: balancer("web"), failed: &corev1.Event{Message: "no answer"}, want: fault{doctor.Fail, "has no load balancer after 1h0m0s: no answer"},
		},
		"pending":           {svc: is("False", "Pending", time.Minute)},
		"pending for long":  {svc: is("False", "Pending", time.Hour), want: fault{doctor.Fail, "is Pending for 1h0m0s: because"}},
		"refused":           {svc: is("False", "RefusedByCloud", time.Second), want: fault{doctor.Fail, "is RefusedByCloud for 1s: because"}},
		"the cloud is dead": {svc: is("Unknown", "SyncFailing", time.Minute), want: fault{doctor.Fail, "is SyncFailing for 1m0s: because"}},
		"user's mistake": {
			svc: is("False", "InvalidConfiguration", time.Minute), want: fault{doctor.Warn, "is InvalidConfiguration for 1m0s: because"},
		},
		"right, although an attempt failed": {svc: balancer("web", right), failed: failed},
		"no backend": {
			svc:  balancer("web", right, state{condition.Degraded, "True", "NoBackends", time.Hour}),
			want: fault{doctor.Warn, "is NoBackends for 1h0m0s: because"},
		},
		"no backend yet": {svc: balancer("web", right, state{condition.Degraded, "True", "NoBackends", time.Minute})},
		"not known":      {svc: balancer("web", right, state{condition.Degraded, "Unknown", "Unknown", time.Hour})},
	} {
		t.Run(name, func(t *testing.T) {
			if got := faultOf(tc.svc, tc.failed, installation.Noon); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestBalancers(t *testing.T) {
	other, plain := balancer("other"), balancer("plain")
	class := "example.com/other"
	other.Spec.LoadBalancerClass, plain.Spec.Type = &class, corev1.ServiceTypeClusterIP
	elsewhere := balancer("web")
	elsewhere.Namespace = "bank"
	ignored := []runtime.Object{other, plain, elsewhere}
	refused := func(name string) *corev1.Service {
		return balancer(name, state{condition.Configured, "False", "RefusedByCloud", time.Minute})
	}
	var many []runtime.Object
	for i := range 9 {
		many = append(many, refused(fmt.Sprint("web", i)))
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.1"}, Reason: condition.EventFailed,
		InvolvedObject: corev1.ObjectReference{Kind: "Service", UID: "web"}, LastTimestamp: metav1.NewTime(installation.Noon),
		Message: "Error syncing load balancer: no answer",
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		level   doctor.Level
		found   string
		details []string
	}{
		"none":  {nil, doctor.OK, "there is no Service of type LoadBalancer in namespace shop", nil},
		"right": {[]runtime.Object{balancer("web", right)}, doctor.OK, "the only load balancer is as its Service requests in namespace shop", nil},
		"failed": {
			[]runtime.Object{balancer("web"), event}, doctor.Fail, "1 of 1 load balancers are not as their Services request",
			[]string{"shop/web has no load balancer after 1h0m0s: Error syncing load balancer: no answer"},
		},
		"many": {
			append(many, balancer("a", state{condition.Configured, "False", "InvalidConfiguration", time.Minute})), doctor.Fail,
			"9 of 10 load balancers are not as their Services request",
			[]string{
				"shop/web0 is RefusedByCloud for 1m0s: because", "shop/web1 is RefusedByCloud for 1m0s: because",
				"shop/web2 is RefusedByCloud for 1m0s: because", "shop/web3 is RefusedByCloud for 1m0s: because",
				"shop/web4 is RefusedByCloud for 1m0s: because", "and 4 more",
				"shop/a is InvalidConfiguration for 1m0s: because",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(append(tc.objects, ignored...)...))
			c.Within, c.Config = "shop", &config.Config{LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true}
			got := c.Balancers(t.Context())
			if got.Level != tc.level || got.Found != tc.found {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
			if diff := cmp.Diff(tc.details, got.Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}
