package webhooks

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/test/harness/installation"
)

func TestCountEndpoints(t *testing.T) {
	endpoint := func(ready, terminating *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating}}
	}
	ready, others := countEndpoints([]discoveryv1.EndpointSlice{
		{Endpoints: []discoveryv1.Endpoint{endpoint(nil, nil), endpoint(new(false), nil)}},
		{Endpoints: []discoveryv1.Endpoint{endpoint(new(true), new(false)), endpoint(new(false), new(true))}},
	})
	if ready != 2 || others != 1 {
		t.Errorf("%d ready and %d others, want 2 and 1", ready, others)
	}
}

func TestDNS(t *testing.T) {
	called := &release.Release{Webhook: &release.Role{}, Validating: configuration(service("quay-webhook"))}
	for name, tc := range map[string]struct {
		release *release.Release
		resolve func(context.Context, string) ([]string, error)
		level   doctor.Level
		found   string
	}{
		"outside": {
			called, nil, doctor.Skip,
			"cluster DNS can only be checked from a pod of the cluster; API servers do not need it",
		},
		"found": {
			called, func(_ context.Context, host string) ([]string,
				error) {
				return []string{"10.0.0.1 for " + host}, nil
			},
			doctor.OK, "quay-webhook.quay.svc resolves to 10.0.0.1 for quay-webhook.quay.svc",
		},
		"unknown": {
			called, func(context.Context, string) ([]string, error) {
				return nil,
					errors.New("no such host")
			},
			doctor.Fail, "cannot resolve quay-webhook.quay.svc: no such host",
		},
		"no webhooks": {&release.Release{}, nil, doctor.Skip, "the release does not include webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset())
			c.Release, c.Resolve = tc.release, tc.resolve
			if got := c.DNS(t.Context()); got.Level != tc.level || got.Found != tc.found {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

func TestService(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-webhook"}}
	slice := func(ready ...bool) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "quay", Name: "quay-webhook-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "quay-webhook"},
		}}
		for _, r := range ready {
			s.Endpoints = append(s.Endpoints,
				discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: &r}})
		}
		return s
	}
	pod := installation.Pod(release.WebhookComponent, "quay-webhook-a", corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
	}}})
	const none = "Service quay/quay-webhook has no ready endpoint, so API servers cannot call the webhooks"
	for name, tc := range map[string]struct {
		cluster *fake.Clientset
		ready   int32
		want    doctor.Result
	}{
		"ready": {
			fake.NewClientset(svc, slice(true, true)), 2,
			doctor.Result{Level: doctor.OK, Found: "Service quay/quay-webhook has 2 ready endpoints"},
		},
		"partly": {fake.NewClientset(svc, slice(true, false), pod), 1, doctor.Result{
			Level: doctor.Warn, Found: "Service quay/quay-webhook has 1 ready endpoints; 1 of 2 pods ready",
			Details: []string{"ContainersNotReady"},
		}},
		"a pod that cannot be created": {fake.NewClientset(svc, slice(true)), 1, doctor.Result{
			Level: doctor.Warn, Found: "Service quay/quay-webhook has 1 ready endpoints; 1 of 2 pods ready",
			Details: []string{"there are no pods"}, Remedy: "check that kube-controller-manager is running",
		}},
		"none": {fake.NewClientset(svc, slice(false), pod), 0, doctor.Result{
			Level: doctor.Fail, Found: none + "; 0 of 2 pods ready", Details: []string{"ContainersNotReady"},
		}},
		"missing": {fake.NewClientset(), 0, doctor.Result{
			Level: doctor.Fail, Found: "Service quay/quay-webhook is missing, so the API server cannot call the webhooks",
			Remedy: "restore it with helm upgrade",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(tc.cluster)
			c.Validating = configuration(service("quay-webhook"))
			c.Webhook.Ready, c.Webhook.Wanted, c.Webhook.Observed = tc.ready, 2, true
			got := c.Service(t.Context())
			if tc.want.Remedy == "" && tc.want.Level != doctor.OK {
				tc.want.Remedy = "run kubectl --namespace quay describe pods --selector app.kubernetes.io/component=webhook, and " +
					"kubectl --namespace quay logs --prefix --selector app.kubernetes.io/component=webhook"
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(doctor.Result{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}
