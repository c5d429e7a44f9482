package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner owns the leases of the simulated kubelets.
const fieldOwner = client.FieldOwner("quaymaster-dev")

// report renews the lease of a Node if its instance runs, and writes the status of the Node if that has changed. A
// stopped or deleted instance has no kubelet that reports; the conditions that kube-controller-manager would set only
// after a grace period are written immediately.
func (k *kubelets) report(ctx context.Context, node *corev1.Node, runs bool) error {
	if runs {
		if err := k.renew(ctx, node); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	patch := client.StrategicMergeFrom(node.DeepCopy())
	if !setStatus(&node.Status, runs, metav1.NewTime(k.clock.Now())) {
		return nil
	}
	// The Node may have been removed since it was listed.
	return client.IgnoreNotFound(k.nodes.Status().Patch(ctx, node, patch))
}

// renew renews the lease of a Node as often as a kubelet does. kube-controller-manager observes it.
func (k *kubelets) renew(ctx context.Context, node *corev1.Node) error {
	now := k.clock.Now()
	if now.Sub(k.renewed[node.Name]) < renewInterval {
		return nil
	}
	// The lease is removed with the Node.
	owner := metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName(node.Name).WithUID(node.UID)
	lease := coordinationv1ac.Lease(node.Name, corev1.NamespaceNodeLease).WithOwnerReferences(owner).
		WithSpec(coordinationv1ac.LeaseSpec().WithHolderIdentity(node.Name).
			WithLeaseDurationSeconds(int32(leaseDuration.Seconds())).WithRenewTime(metav1.NewMicroTime(now)))
	if err := k.nodes.Apply(ctx, lease, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", node.Name, err)
	}
	k.renewed[node.Name] = now
	return nil
}

// setStatus sets what a kubelet reports, or what is set without one, and returns false if the Node is already ready, or
// no longer ready, as it should be. Other controllers own further conditions.
func setStatus(status *corev1.NodeStatus, runs bool, now metav1.Time) bool {
	if ready(status) == runs {
		return false
	}
	silent := corev1.NodeCondition{
		Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
	}
	conditions := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "kubelet is posting ready status"},
	}
	for _, condition := range conditions {
		if !runs {
			silent.Type = condition.Type
			condition = silent
		}
		condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
		setCondition(status, condition)
	}
	if runs {
		status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("4"),
			corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
		status.Allocatable = status.Capacity
		status.NodeInfo.OperatingSystem, status.NodeInfo.Architecture = "linux", "amd64"
		status.NodeInfo.KubeletVersion, status.NodeInfo.ContainerRuntimeVersion = "simulated", "simulated"
	}
	return true
}

// ready reports whether the Node's status says that it is ready.
func ready(status *corev1.NodeStatus) bool {
	for _, condition := range status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func setCondition(status *corev1.NodeStatus, condition corev1.NodeCondition) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == condition.Type {
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
