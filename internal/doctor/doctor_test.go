package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSteps(t *testing.T) {
	run := func(level Level) func(*examination, context.Context) Result {
		return func(*examination, context.Context) Result { return Result{Level: level} }
	}
	e := &examination{}
	blocked := map[string]bool{}
	var got []Level
	for _, c := range []check{
		{"failed", nil, run(Fail)},
		{"needs the failed one", []string{"failed"}, run(OK)},
		{"needs the skipped one", []string{"needs the failed one"}, run(OK)},
		{"not applicable", nil, run(Skip)},
		{"needs the one that is not applicable", []string{"not applicable"}, run(OK)},
	} {
		result := e.step(t.Context(), c, blocked)
		blocked[c.name] = blocked[c.name] || result.Level == Fail
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
			webhook:     &role{account: "quay-webhook", template: template},
			controllers: &role{account: "quay-controllers", template: template},
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

func TestNotReady(t *testing.T) {
	container := func(state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"ready": {
			corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			"",
		},
		"no image": {
			container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: "no such image"}}),
			"ImagePullBackOff: no such image",
		},
		"no node": {
			corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"},
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
					Message: "0/1 nodes are available"},
			}},
			"Unschedulable: 0/1 nodes are available",
		},
		"crashed": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
					Message: "no rights\n"}},
			}}},
			"exited with code 1: no rights",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notReady(&corev1.Pod{Status: tc.status}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
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

func TestCloud(t *testing.T) {
	meta := cloudv1.Meta{APIVersion: "1.0.0", Status: "ok", ServerTime: noon}
	degraded, late := meta, meta
	degraded.Status, late.ServerTime = "degraded", noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		cloud Cloud
		level Level
		found string
	}{
		"none":         {nil, Skip, "--cloud-config is not set"},
		"healthy":      {answer{meta: meta}, OK, "API 1.0.0 responds"},
		"held by this": {answer{meta: meta, holder: "own"}, OK, "API 1.0.0 responds"},
		"held by another": {
			answer{meta: meta, holder: "other"}, Warn,
			`API 1.0.0 responds; another cluster holds the cluster UID: "prod" with the fingerprint other, not own`,
		},
		"degraded":    {answer{meta: degraded}, Warn, "API 1.0.0 is degraded"},
		"other clock": {answer{meta: late}, Warn, "API 1.0.0; its clock is 1m0s behind this machine's"},
		"unreachable": {answer{err: errors.New("connection refused")}, Fail, "no response: connection refused"},
		"wrong token": {
			answer{err: &cloudapi.Error{Status: 401, Problem: &cloudv1.Problem{Code: cloudv1.CodeUnauthenticated}}},
			Fail, "the cloud rejects the token",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"}}))
			e.Cloud = tc.cloud
			e.Identity = func() (clusterca.Identity, error) { return clusterca.Identity{Proven: "own"}, nil }
			got := e.cloud(t.Context())
			if got.Level != tc.level || got.Found != tc.found ||
				(got.Remedy != "") != (tc.level == Fail || tc.level == Warn) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
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
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}},
	}
	for name, tc := range map[string]struct {
		cluster *fake.Clientset
		level   Level
		found   string
	}{
		"ready": {fake.NewClientset(svc, slice(true, true)), OK, "Service quay/quay-webhook has 2 ready endpoints"},
		"partly": {
			fake.NewClientset(svc, slice(true, false), pod), Warn,
			"Service quay/quay-webhook has 1 ready endpoints and 1 that are not ready: pod quay-webhook-a: " +
				"ContainersNotReady",
		},
		"none": {
			fake.NewClientset(svc, slice(false), pod), Fail,
			"Service quay/quay-webhook has no ready endpoints and 1 that are not ready: pod quay-webhook-a: " +
				"ContainersNotReady",
		},
		"no pods": {
			fake.NewClientset(svc), Fail,
			"Service quay/quay-webhook has no ready endpoints and 0 that are not ready: no pods found",
		},
		"missing": {
			fake.NewClientset(), Fail,
			"Service quay/quay-webhook is missing, so the API server cannot call the webhooks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(tc.cluster)
			e.release.validating = configuration(service("quay-webhook"))
			if got := e.service(t.Context()); got.Level != tc.level || got.Found != tc.found {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}
