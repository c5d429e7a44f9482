package nodelifecycle

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/kube/brakes"
)

// AnnotationAllowDeletion set to true on a Node is an operator's approval to delete the Node once the cloud does not
// know its machine, however many other Nodes are deleted.
const AnnotationAllowDeletion = "quaymaster.dev/allow-deletion"

// taintScaledDown is the taint that the cluster autoscaler sets on a Node before it deletes the machine.
const taintScaledDown = "ToBeDeletedByClusterAutoscaler"

// budget limits how many Nodes are deleted on the cloud's word alone: a faulty cloud may report any number of machines as
// deleted.
var budget = brakes.Budget{Percent: 5, Window: 10 * time.Minute}

const brakeMessage = "the machines of more than 5 % of Nodes (at least one) are reported as gone within 10 minutes"

// limit returns how many Nodes may be deleted per window.
func (c *Controller) limit() int {
	nodes, err := c.nodes.Lister().List(labels.Everything())
	if err != nil {
		return 1
	}
	// The share is of all Nodes, including those deleted within the window.
	all := sets.New(c.o.Brakes.Spent(brakes.NodeDeletions, budget.Window)...)
	for _, node := range nodes {
		all.Insert(string(node.UID))
	}
	return budget.Limit(all.Len())
}

// room reports whether a Node may be deleted, so that the cloud is asked only about Nodes that may go. Once the brake is
// engaged, none may, however much time passes: a cloud that has lost machines, or is the wrong one, stays like that.
func (c *Controller) room(node *corev1.Node) bool {
	if slices.Contains(c.o.Brakes.Spent(brakes.NodeDeletions, budget.Window), string(node.UID)) {
		return true
	}
	_, _, engaged := c.o.Brakes.Engaged(brakes.NodeDeletions)
	return !engaged && c.o.Brakes.Room(brakes.NodeDeletions, c.limit(), budget.Window)
}

// releaseBrake releases the brake when no Node is kept because of it any longer. A new leader must have looked at all
// Nodes before.
func (c *Controller) releaseBrake(ctx context.Context) {
	if !c.o.Machines.HasSynced() || c.queue.Len() > 0 || c.count()[tooMany] > 0 {
		return
	}
	if err := c.o.Brakes.Release(ctx, brakes.NodeDeletions); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Could not release a brake, will retry")
	}
}

// Expected reports whether the cluster itself expects the deletion of the Node, so that it does not depend on the
// cloud's word alone.
func Expected(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintScaledDown })
}
