package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSteps(t *testing.T) {
	run := func(level Level) func(*examination, context.Context) Result {
		return func(*examination, context.Context) Result { return Result{Level: level} }
	}
	e := &examination{}
	blocked := map[string]string{}
	var got []Level
	for _, c := range []check{
		{"failed", nil, run(Fail)},
		{"needs the failed one", []string{"failed"}, run(OK)},
		{"needs the skipped one", []string{"needs the failed one"}, run(OK)},
		{"not applicable", nil, run(Skip)},
		{"needs the one that is not applicable", []string{"not applicable"}, run(OK)},
	} {
		result := e.step(t.Context(), c, blocked)
		if result.Level == Skip && len(c.needs) > 0 && result.Found != "not run because of failed" {
			t.Errorf("%s: %s", c.name, result.Found)
		}
		got = append(got, result.Level)
	}
	if diff := cmp.Diff([]Level{Fail, Skip, Skip, Skip, OK}, got); diff != "" {
		t.Errorf("unexpected levels (-want +got):\n%s", diff)
	}
}

func TestChecksNeedEarlierOnes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks() {
		for _, need := range c.needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which is not an earlier check", c.name, need)
			}
		}
		seen[c.name] = true
	}
}

// installation returns an examination of a release whose pods run with args.
func installation(cluster *fake.Clientset, args ...string) *examination {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: args}}}}
	return &examination{
		Options: Options{API: cluster, Namespace: "quay", Release: "quay",
			Clock: clocktesting.NewFakePassiveClock(noon)},
		release: release{
			webhook:     &role{component: webhookComponent, account: "quay-webhook", template: template},
			controllers: &role{component: controllersComponent, account: "quay-controllers", template: template},
		},
	}
}

func TestArguments(t *testing.T) {
	e := installation(fake.NewClientset(), "webhook", "--cert-secret=first", "--cert-secret=last", "--without-cloud",
		"--cert-secretary=x")
	for flag, want := range map[string]string{"--cert-secret": "last", "--without-cloud": "", "--cert": "default"} {
		if got := e.release.webhook.argumentOr(flag, "default"); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
	if !e.release.controllers.withoutCloud() {
		t.Error("a flag without a value is not recognized")
	}
	var none *role
	if got := none.argumentOr("--cert", "default"); got != "default" {
		t.Errorf("without a role: %q", got)
	}
}

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

func TestNotAccepted(t *testing.T) {
	policy := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "shop", "name": "limits", "generation": int64(2)},
			"status":   map[string]any{"conditions": conditions},
		}}
	}
	condition := func(status string, generation int64) map[string]any {
		return map[string]any{"type": "Accepted", "status": status, "reason": "X", "message": "default breaks rule",
			"observedGeneration": generation}
	}
	for name, tc := range map[string]struct {
		policy *unstructured.Unstructured
		want   string
	}{
		"accepted":          {policy(condition("True", 2)), ""},
		"not accepted":      {policy(condition("False", 2)), "shop/limits: default breaks rule"},
		"changed since":     {policy(condition("True", 1)), "shop/limits: not checked by the controllers yet"},
		"without condition": {policy(), "shop/limits: not checked by the controllers yet"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notAccepted(tc.policy); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// answer is a cloud with a fixed response.
type answer struct {
	meta cloudv1.Meta
	// holder is the fingerprint of the holder of the cluster's UID, or empty.
	holder string
	err    error
}

func (a answer) Meta(context.Context) (*cloudv1.Meta, error) { return &a.meta, a.err }

func (a answer) Holder(_ context.Context, uid string, _ cloudapi.ReadOptions) (*cloudv1.ClusterHolder, error) {
	if a.holder == "" || uid != "uid" {
		return nil, &cloudapi.Error{Status: 404, Problem: &cloudv1.Problem{Code: cloudv1.CodeResourceNotFound}}
	}
	return &cloudv1.ClusterHolder{Object: cloudv1.Object{Name: "prod"}, Fingerprints: []string{a.holder}}, nil
}

func TestDNS(t *testing.T) {
	called := func(name string) release {
		return release{webhook: &role{}, validating: configuration(service(name))}
	}
	for name, tc := range map[string]struct {
		release release
		resolve func(context.Context, string) ([]string, error)
		level   Level
		found   string
	}{
		"outside": {
			called("quay-webhook"), nil, Skip,
			"cluster DNS can only be checked from a pod of the cluster; API servers do not need it",
		},
		"found": {
			called("quay-webhook"), func(_ context.Context, host string) ([]string,
				error) {
				return []string{"10.0.0.1 for " + host}, nil
			},
			OK, "quay-webhook.quay.svc resolves to 10.0.0.1 for quay-webhook.quay.svc",
		},
		"unknown": {
			called("quay-webhook"), func(context.Context, string) ([]string, error) {
				return nil,
					errors.New("no such host")
			},
			Fail, "cannot resolve quay-webhook.quay.svc: no such host",
		},
		"no webhooks": {release{}, nil, Skip, "the release does not include webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(fake.NewClientset())
			e.release, e.Resolve = tc.release, tc.resolve
			if got := e.dns(t.Context()); got.Level != tc.level || got.Found != tc.found {
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
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-webhook-a", Labels: map[string]string{
			labelName: "quaymaster", labelInstance: "quay", labelComponent: webhookComponent,
		}},
		Spec: corev1.PodSpec{NodeName: "a"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}},
	}
	const none = "Service quay/quay-webhook has no ready endpoint, so API servers cannot call the webhooks"
	for name, tc := range map[string]struct {
		cluster *fake.Clientset
		ready   int32
		want    Result
	}{
		"ready": {
			fake.NewClientset(svc, slice(true, true)), 2,
			Result{Level: OK, Found: "Service quay/quay-webhook has 2 ready endpoints"},
		},
		"partly": {fake.NewClientset(svc, slice(true, false), pod), 1, Result{
			Level: Warn, Found: "Service quay/quay-webhook has 1 ready endpoints; 1 of 2 pods ready",
			Details: []string{"ContainersNotReady"},
		}},
		"a pod that cannot be created": {fake.NewClientset(svc, slice(true)), 1, Result{
			Level: Warn, Found: "Service quay/quay-webhook has 1 ready endpoints; 1 of 2 pods ready",
			Details: []string{"there are no pods"}, Remedy: "check that kube-controller-manager is running",
		}},
		"none": {fake.NewClientset(svc, slice(false), pod), 0, Result{
			Level: Fail, Found: none + "; 0 of 2 pods ready", Details: []string{"ContainersNotReady"},
		}},
		"missing": {fake.NewClientset(), 0, Result{
			Level: Fail, Found: "Service quay/quay-webhook is missing, so the API server cannot call the webhooks",
			Remedy: "restore it with helm upgrade",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(tc.cluster)
			e.release.validating = configuration(service("quay-webhook"))
			e.release.webhook.ready, e.release.webhook.wanted, e.release.webhook.observed = tc.ready, 2, true
			got := e.service(t.Context())
			if tc.want.Remedy == "" && tc.want.Level != OK {
				tc.want.Remedy = "run kubectl --namespace quay describe pods --selector app.kubernetes.io/component=webhook, and " +
					"kubectl --namespace quay logs --prefix --selector app.kubernetes.io/component=webhook"
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(Result{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}
