package volume

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
)

// ZoneChange holds what a PersistentVolume lacks to be bound to its zones.
type ZoneChange struct {
	// Labels are to be set; they replace existing values.
	Labels map[string]string
	// Requirements are to be added to every term of the required node affinity, because one matching term suffices.
	Requirements []corev1.NodeSelectorRequirement
	// Findings are the problems to report to the PersistentVolume's author. If one is an error, there is nothing to
	// change.
	Findings []finding.Finding
}

// Affinity returns the node affinity for a PersistentVolume that has none; nil if none is needed.
func (c ZoneChange) Affinity() *corev1.VolumeNodeAffinity {
	if len(c.Requirements) == 0 {
		return nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: c.Requirements}},
	}}
}

// ApplyZones compares a PersistentVolume with the labels that it must have, from the cloud or a provisioner, which take
// precedence over existing labels. The node affinity gets all requirements, or none if it already contains any of their
// keys: its author has decided. ApplyZones is idempotent: once the change is made, it returns an empty one.
func ApplyZones(pv *corev1.PersistentVolume, labels map[string]string) ZoneChange {
	var c ZoneChange
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		values := []string{value}
		if key == current.zone || key == beta.zone {
			zones, err := splitZones(value)
			if err != nil {
				return ZoneChange{Findings: []finding.Finding{invalidZoneLabel(key, value, err)}}
			}
			values = zones
		}
		c.Requirements = append(c.Requirements, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: values,
		})
		old, present := pv.Labels[key]
		if present && old == value {
			continue
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[key] = value
		if present {
			c.Findings = append(c.Findings, overwrittenLabel(key, value))
		}
	}
	if slices.ContainsFunc(terms(pv), func(term corev1.NodeSelectorTerm) bool { return hasAnyKey(term, labels) }) {
		c.Requirements = nil
	}
	return c
}

func terms(pv *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms
}

func hasAnyKey(term corev1.NodeSelectorTerm, labels map[string]string) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		_, ok := labels[r.Key]
		return ok
	})
}
