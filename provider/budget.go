package provider

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/controllers/nodelifecycle"
)

const (
	// Per budgetWindow, one in budgetShare Nodes, and at least one, may be reported as gone.
	budgetWindow = 10 * time.Minute
	budgetShare  = 20
)

// budget limits how many Nodes are deleted on the cloud's word alone: a faulty cloud may return any number of
// tombstones. It is only for the stock controllers, and a restart renews it: ours count in controllers/brake.
type budget struct {
	// spent maps the Nodes that were reported as gone to the time of the report.
	spent map[types.UID]time.Time
}

// spend reports whether the Node may be reported as gone, and if so, counts it. Asking again for the same Node is free.
func (b *budget) spend(uid types.UID, nodes []*corev1.Node, now time.Time) bool {
	maps.DeleteFunc(b.spent, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= budgetWindow })
	if _, already := b.spent[uid]; already {
		return true
	}
	// The share is of all Nodes, including those deleted within the window.
	total := len(nodes) + len(b.spent)
	for _, node := range nodes {
		if _, stays := b.spent[node.UID]; stays {
			total--
		}
	}
	if len(b.spent) >= max(1, total/budgetShare) {
		return false
	}
	b.spent[uid] = now
	return true
}

// expected reports whether the cluster or an operator expects the deletion of the Node, so that it does not depend on
// the cloud's word alone.
func expected(node *corev1.Node) bool {
	return nodelifecycle.Expected(node) || node.DeletionTimestamp != nil ||
		node.Annotations[nodelifecycle.AnnotationAllowDeletion] == "true"
}
