package provider

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationAllowDeletion on a Node, with the value true, is a person's word that the Node may go with its machine, however many
// others do.
const AnnotationAllowDeletion = "quaymaster.dev/allow-deletion"

// taintScaledDown is what the cluster autoscaler puts on a Node before it deletes the machine.
const taintScaledDown = "ToBeDeletedByClusterAutoscaler"

const (
	// budgetWindow is the time in which one Node in budgetShare, and always one, may be reported gone.
	budgetWindow = 10 * time.Minute
	budgetShare  = 20
)

// budget is how many Nodes may go because the cloud says so: a cloud that loses its mind may show any number of tombstones.
type budget struct {
	// spent are the Nodes that were reported gone, and when.
	spent map[types.UID]time.Time
}

// spend tells whether one more of the Nodes may be reported gone, and takes note of it. To ask again for the same costs nothing.
func (b *budget) spend(uid types.UID, nodes []*corev1.Node, now time.Time) bool {
	maps.DeleteFunc(b.spent, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= budgetWindow })
	if _, already := b.spent[uid]; already {
		return true
	}
	// Those that have gone count among those that there were.
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

// expected tells whether somebody in the cluster wants the Node to go, so that it is not the cloud's word alone.
func expected(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == taintScaledDown {
			return true
		}
	}
	return node.DeletionTimestamp != nil || node.Annotations[AnnotationAllowDeletion] == "true"
}
