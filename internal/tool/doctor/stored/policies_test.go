package stored

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/test/harness/installation"
)

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

// podAnswer is the answer of a pod to whether it uses policies.
type podAnswer struct{ unused string }

func (a podAnswer) DoRaw(context.Context) ([]byte, error) {
	if a.unused == "" {
		return []byte("ok"), nil
	}
	return []byte(a.unused + "\n"), apierrors.NewInternalError(errors.New(a.unused))
}

func (a podAnswer) Stream(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.unused)), nil
}

// Accepted policies that a webhook pod does not use are reported with the pod and its reason.
func TestPoliciesInUse(t *testing.T) {
	accepted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "quaymaster.dev/v1alpha1", "kind": "LoadBalancerPolicy",
		"metadata": map[string]any{"namespace": "shop", "name": "limits", "generation": int64(1)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Accepted", "status": "True", "observedGeneration": int64(1),
		}}},
	}}
	kinds := map[schema.GroupVersionResource]string{}
	for _, resource := range policyResources() {
		kinds[resource] = map[bool]string{true: "LoadBalancerPolicyList", false: "ClusterLoadBalancerPolicyList"}[resource.Resource == policies]
	}
	for name, tc := range map[string]struct {
		answers map[string]podAnswer
		level   doctor.Level
		found   string
		details string
	}{
		"all use them": {
			map[string]podAnswer{"a": {}, "b": {}}, doctor.OK, "the only policy is accepted; 2 of 2 webhook pods use them", "",
		},
		"one does not": {
			map[string]podAnswer{"a": {}, "b": {"the API server does not serve LoadBalancerPolicy"}}, doctor.Warn,
			"1 of 2 webhook pods apply no policies", "pod b reports: the API server does not serve LoadBalancerPolicy",
		},
		"no pods": {nil, doctor.OK, "the only policy is accepted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			for pod := range tc.answers {
				running := installation.Pod(release.WebhookComponent, pod, corev1.PodStatus{PodIP: "10.0.0.1"})
				running.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "health", ContainerPort: 8081}}}}
				if err := api.Tracker().Add(running); err != nil {
					t.Fatal(err)
				}
			}
			api.PrependProxyReactor("pods", func(action clienttesting.Action) (bool, rest.ResponseWrapper, error) {
				request, ok := action.(clienttesting.ProxyGetAction)
				if !ok || request.GetPort() != "8081" || request.GetPath() != "/policies/use" {
					t.Errorf("unexpected request: %+v", action)
				}
				return true, tc.answers[request.GetName()], nil
			})
			cluster := installation.New(api)
			cluster.Objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, accepted)
			got := Checks{cluster}.Policies(t.Context())
			if got.Level != tc.level || got.Found != tc.found || strings.Join(got.Details, "; ") != tc.details {
				t.Errorf("got %+v, want %+v", got, tc)
			}
		})
	}
}
