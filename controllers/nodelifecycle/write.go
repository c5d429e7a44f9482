package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	cloudnode "k8s.io/cloud-provider/node/helpers"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
)

// conditionMachineGone is the type of the condition that a Node gets before it is deleted.
const conditionMachineGone = "quaymaster.dev/MachineGone"

// The reasons of Events, which are those of the controller that this one replaces.
const (
	eventDeleting = "DeletingNode"
	eventFailed   = "DeletingNodeFailed"
)

// shutdown returns the taint of Nodes whose machines are stopped.
func shutdown() *corev1.Taint {
	return &corev1.Taint{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// tainted reports whether the Node has the taint of a stopped machine.
func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(shutdown()) })
}

func (c *Controller) addTaint(node *corev1.Node) error {
	if tainted(node) {
		return nil
	}
	if err := cloudnode.AddOrUpdateTaintOnNode(c.client, node.Name, shutdown()); err != nil {
		return fmt.Errorf("taint the node of a stopped machine: %w", err)
	}
	return nil
}

func (c *Controller) removeTaint(node *corev1.Node) error {
	if !tainted(node) {
		return nil
	}
	if err := cloudnode.RemoveTaintOffNode(c.client, node.Name, node, shutdown()); err != nil {
		return fmt.Errorf("remove the taint of a stopped machine: %w", err)
	}
	return nil
}

// delete deletes a Node, provided that it is still the one about which that was decided: neither another Node of its
// name, nor one that has changed, for example because it is ready again.
func (c *Controller) delete(ctx context.Context, node *corev1.Node, recorded bool) error {
	reason, message := "InstanceUnknown", "The cloud does not know the machine of the node, and has said so repeatedly"
	if recorded {
		reason, message = "InstanceDeleted", "The cloud has a record of the deletion of the node's machine"
	}
	marked, err := c.mark(ctx, node, reason, message)
	if err != nil {
		return err
	}
	c.recorder.Eventf(node, corev1.EventTypeNormal, eventDeleting,
		"Deleting node %s because it does not exist in the cloud provider: %s", node.Name, message)
	err = c.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: &marked.UID, ResourceVersion: &marked.ResourceVersion,
	}})
	if err == nil {
		klog.FromContext(ctx).Info("Deleted a Node whose machine is gone", "node", klog.KObj(node), "uid", node.UID,
			"providerID", node.Spec.ProviderID, "reason", reason)
		return nil
	}
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		c.recorder.Eventf(node, corev1.EventTypeWarning, eventFailed, "Failed deleting node %s: %v", node.Name, err)
	}
	return fmt.Errorf("delete the node: %w", err)
}

// mark sets the condition that explains the deletion of a Node, and returns the Node with it.
func (c *Controller) mark(ctx context.Context, node *corev1.Node, reason, message string) (*corev1.Node, error) {
	if _, now := nodeutil.GetNodeCondition(&node.Status, conditionMachineGone); now != nil && now.Reason == reason {
		return node, nil // an earlier deletion failed
	}
	now := metav1.NewTime(c.o.Clock.Now())
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.NodeCondition{{
			Type: conditionMachineGone, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}}},
	})
	if err != nil {
		return nil, err
	}
	marked, err := c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("set condition %s: %w", conditionMachineGone, err)
	}
	return marked, nil
}
