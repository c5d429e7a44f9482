package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// checkDrain evicts all pods from the only Node of a cluster, as a drain does. Their replacements find no Node.
func checkDrain(t *testing.T, e *env.Env) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "only"}}
	if err := e.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	// A patch: kube-controller-manager writes to new Nodes too.
	created := client.StrategicMergeFrom(node.DeepCopy())
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := e.Client.Status().Patch(t.Context(), node, created); err != nil {
		t.Fatal(err)
	}
	fail := func(replicas int) env.Values {
		return env.Values{"webhook": map[string]any{"replicas": replicas, "failurePolicy": map[string]any{"validateService": "Fail"}}}
	}
	tests := []struct {
		name   string
		values env.Values
		// left are the pods that cannot be evicted.
		left map[string]int
	}{
		{"default", env.Values{}, map[string]int{}},
		{"fail-one", fail(1), map[string]int{}},
		{"fail-two", fail(2), map[string]int{"webhook": 1}},
	}
	for _, test := range tests {
		helm(t, e, test.values, "install", release, folder(t), "--namespace", test.name, "--create-namespace")
		want := map[string]int{"webhook": 2, "controllers": 1}
		if test.name == "fail-one" {
			want["webhook"] = 1
		}
		pods := start(t, e, test.name, node.Name, want)
		waitForBudgets(t, e, test.name)
		left := map[string]int{}
		for _, pod := range pods {
			err := e.Client.SubResource("eviction").Create(t.Context(), &pod, &policyv1.Eviction{})
			if apierrors.IsTooManyRequests(err) {
				left[pod.Labels["app.kubernetes.io/component"]]++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(test.left, left); diff != "" {
			t.Errorf("%s: pods that cannot be evicted (-want +got):\n%s", test.name, diff)
		}
		helm(t, e, nil, "uninstall", release, "--namespace", test.name)
	}
}

// start makes pods run on a Node, as scheduler and kubelet do: as many of each component as find room there.
func start(t *testing.T, e *env.Env, namespace, node string, room map[string]int) []corev1.Pod {
	t.Helper()
	var running []corev1.Pod
	env.Eventually(t, soon, "pods", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := e.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			component := pod.Labels["app.kubernetes.io/component"]
			if room[component] == 0 || pod.Spec.NodeName != "" {
				continue
			}
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			if err := e.Client.SubResource("binding").Create(ctx, pod, binding); err != nil {
				return err
			}
			room[component]--
			bound := client.StrategicMergeFrom(pod.DeepCopy())
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			if err := e.Client.Status().Patch(ctx, pod, bound); err != nil {
				return err
			}
			running = append(running, *pod)
		}
		for component, more := range room {
			if more > 0 {
				return fmt.Errorf("%d more of %s", more, component)
			}
		}
		return nil
	})
	return running
}

// waitForBudgets waits until PodDisruptionBudgets count the pods that run.
func waitForBudgets(t *testing.T, e *env.Env, namespace string) {
	t.Helper()
	env.Eventually(t, soon, "PodDisruptionBudgets", func(ctx context.Context) error {
		var budgets policyv1.PodDisruptionBudgetList
		if err := e.Client.List(ctx, &budgets, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, budget := range budgets.Items {
			if strings.HasSuffix(budget.Name, "-webhook") && budget.Status.CurrentHealthy < 2 {
				return fmt.Errorf("status of %s is %+v", budget.Name, budget.Status)
			}
		}
		return nil
	})
}
