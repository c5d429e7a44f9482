package volume_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/volume"
)

func TestCarryOver(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	affinity := func(terms ...[]corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
		a := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
		for _, expressions := range terms {
			a.Required.NodeSelectorTerms = append(
				a.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: expressions},
			)
		}
		return a
	}
	type all = []corev1.NodeSelectorRequirement
	zone, region, disk := in(corev1.LabelTopologyZone, "eu-1a"), in(corev1.LabelTopologyRegion, "eu-1"), in("disk", "fast")
	labels := map[string]string{corev1.LabelTopologyZone: "eu-1a", corev1.LabelTopologyRegion: "eu-1"}
	tests := map[string]struct {
		labels   map[string]string
		old, new *corev1.VolumeNodeAffinity
		carried  bool
	}{
		"applied again without affinity": {labels, affinity(all{region, zone}), nil, true},
		"applied again with other terms": {
			labels, affinity(all{disk, region, zone}, all{region, zone}), affinity(all{disk}, nil), true,
		},
		"unchanged": {labels, affinity(all{region, zone}), affinity(all{region, zone}), false},
		"a changed requirement": {
			labels, affinity(all{disk, region, zone}), affinity(all{in("disk", "slow")}), false,
		},
		"another zone": {
			labels, affinity(all{region, zone}), affinity(all{in(corev1.LabelTopologyZone, "eu-1b")}), false,
		},
		"own zone requirement removed": {labels, affinity(all{zone}), nil, false},
		"no affinity before":           {labels, nil, affinity(all{disk}), false},
		"no zone labels":               {nil, affinity(all{region, zone}), nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			oldPV, newPV := &corev1.PersistentVolume{}, &corev1.PersistentVolume{}
			oldPV.Labels, oldPV.Spec.NodeAffinity, newPV.Spec.NodeAffinity = test.labels, test.old, test.new
			var want *corev1.VolumeNodeAffinity
			if test.carried {
				want = test.old
			}
			if diff := cmp.Diff(want, volume.CarryOver(oldPV, newPV)); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}
