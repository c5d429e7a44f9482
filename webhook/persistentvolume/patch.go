package persistentvolume

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/webhook"
)

// patch returns a patch with what the PersistentVolume lacks; it never replaces an existing map or list.
func patch(pv *corev1.PersistentVolume, change volume.ZoneChange) webhook.Patch {
	var p webhook.Patch
	p.AddEntries("/metadata/labels", pv.Labels, change.Labels)
	if affinity := change.Affinity(); affinity != nil {
		addAffinity(&p, pv.Spec.NodeAffinity, affinity)
	}
	return p
}

// addAffinity adds the whole affinity if there is none, otherwise its requirements to every term, because terms are
// alternatives.
func addAffinity(p *webhook.Patch, present, added *corev1.VolumeNodeAffinity) {
	switch {
	case present == nil:
		p.Add("/spec/nodeAffinity", added)
		return
	case present.Required == nil:
		p.Add("/spec/nodeAffinity/required", added.Required)
		return
	case len(present.Required.NodeSelectorTerms) == 0:
		p.Add("/spec/nodeAffinity/required/nodeSelectorTerms", added.Required.NodeSelectorTerms)
		return
	}
	requirements := added.Required.NodeSelectorTerms[0].MatchExpressions
	for i, term := range present.Required.NodeSelectorTerms {
		expressions := "/spec/nodeAffinity/required/nodeSelectorTerms/" + strconv.Itoa(i) + "/matchExpressions"
		if term.MatchExpressions == nil {
			p.Add(expressions, requirements)
			continue
		}
		for _, requirement := range requirements {
			p.Add(expressions+"/-", requirement)
		}
	}
}
