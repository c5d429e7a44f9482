package main

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

const (
	hostname = "node-1"
	instance = "i-" + hostname
)

func TestKubelets(t *testing.T) {
	ctx := t.Context()
	c := cloud.Start(t, 0)
	kube := fake.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).Build()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	k := newKubelets(c.Client, kube, clock, t.Output())
	sync := func(passed time.Duration) {
		t.Helper()
		clock.Step(passed)
		if err := k.sync(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// check checks the status of the Node and how long ago its lease was renewed.
	check := func(status corev1.ConditionStatus, age time.Duration) {
		t.Helper()
		node, lease := &corev1.Node{}, &coordinationv1.Lease{}
		if err := kube.Get(ctx, client.ObjectKey{Name: hostname}, node); err != nil {
			t.Fatal(err)
		}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: hostname}, lease); err != nil {
			t.Fatal(err)
		}
		found := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		for _, condition := range node.Status.Conditions {
			found[condition.Type] = condition.Status
		}
		if len(found) != 5 || found[corev1.NodeReady] != status || found[corev1.NodeNetworkUnavailable] != corev1.ConditionFalse {
			t.Errorf("the conditions are %v, want Ready %s and the NetworkUnavailable of another controller", found, status)
		}
		if got := clock.Since(lease.Spec.RenewTime.Time); got != age {
			t.Errorf("the lease was renewed %s ago, want %s", got, age)
		}
	}

	sync(0) // registers
	node := &corev1.Node{}
	if err := kube.Get(ctx, client.ObjectKey{Name: hostname}, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse}}
	if err := kube.Status().Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	sync(0)
	check(corev1.ConditionTrue, 0)
	sync(renewInterval - time.Second)
	check(corev1.ConditionTrue, renewInterval-time.Second)
	sync(time.Second)
	check(corev1.ConditionTrue, 0)

	if _, err := c.Client.StopInstance(ctx, instance, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	sync(renewInterval)
	check(corev1.ConditionUnknown, renewInterval)
	if _, err := c.Client.StartInstance(ctx, instance, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	sync(time.Second)
	check(corev1.ConditionTrue, 0)

	if err := kube.Delete(ctx, node); err != nil {
		t.Fatal(err)
	}
	sync(renewInterval)
	if err := kube.Get(ctx, client.ObjectKey{Name: hostname}, node); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the removed Node was registered again: %v", err)
	}
}
