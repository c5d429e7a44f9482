package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// CarryOver returns the node affinity that an update must keep; nil if there is nothing to do. A user who applies the
// manifest of a PersistentVolume a second time does not know what was added to it, and the API server rejects every
// change of an affinity. So the old affinity is kept if completing the new one results in the old one. Any other change
// is the user's and is rejected.
func CarryOver(oldPV, newPV *corev1.PersistentVolume) *corev1.VolumeNodeAffinity {
	old := oldPV.Spec.NodeAffinity
	if old == nil || equality.Semantic.DeepEqual(old, newPV.Spec.NodeAffinity) {
		return nil
	}
	for _, g := range []generation{current, beta} {
		labels, ok := g.labels(oldPV)
		if !ok {
			continue
		}
		if equality.Semantic.DeepEqual(old, completed(newPV, ApplyZones(newPV, labels))) {
			return old
		}
	}
	return nil
}

// completed returns the node affinity of a PersistentVolume with the change applied.
func completed(pv *corev1.PersistentVolume, c ZoneChange) *corev1.VolumeNodeAffinity {
	if len(terms(pv)) == 0 {
		return c.Affinity()
	}
	affinity := pv.Spec.NodeAffinity.DeepCopy()
	for i := range affinity.Required.NodeSelectorTerms {
		term := &affinity.Required.NodeSelectorTerms[i]
		term.MatchExpressions = slices.Concat(term.MatchExpressions, c.Requirements)
	}
	return affinity
}
